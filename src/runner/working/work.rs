//! The work of one attempt: polls it to its end, and stops it when it must stop.
//!
//! ```text
//!            ┌── returns ──────────────────────────────────────▶ its result
//! started ───┤                                 ┌── returns ────▶ its result, within the grace
//!            └── told to stop, or timed out ───┤
//!                                              └── time is up ─▶ none: it is dropped
//! ```
//!
//! Nothing can stop work that never awaits: it is told to stop, and dropped, between two polls.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::verdict::{Judge, WorkEnd};
use crate::runner::life::lease::RunnerLease;
use crate::runner::shared::Shared;
use crate::store::Verdict;
use crate::worker::panics::{catch, catching};
use crate::worker::{Attempt, Next, StopReason};

/// Runs the worker and says what becomes of the job.
pub(in crate::runner) async fn work(shared: &Shared, lease: &RunnerLease, attempt: &Arc<Attempt>) -> Verdict {
    let Some(worker) = shared.workers.registry.worker(attempt.row.kind.as_str()) else {
        // Jobs are fetched by kind, so this cannot be. If it is, the job is for another runner.
        return Verdict::GiveBack { has_started: false };
    };
    // Where the job is another runner's, or final, the fence drops this.
    if attempt.stop.reason().is_some() {
        return Verdict::GiveBack { has_started: false };
    }
    let (mut timeout, mut error_type) = (None, None);
    // Reading a job is the worker's code as well.
    let ended = match catch(|| Arc::clone(worker).begin(Arc::clone(attempt))) {
        Ok(begun) => {
            timeout = begun.timeout.or(shared.options.timeout);
            error_type = begun.error_type;
            let limits = TimeLimits { timeout, grace: shared.options.stop_grace };
            let work = Next::around(&shared.workers.middleware, attempt, begun.work);
            let work = async {
                match catching(work).await {
                    Ok(returned) => WorkEnd::Returned(returned),
                    Err(panic) => WorkEnd::Panicked(panic),
                }
            };
            run(work, lease, attempt, limits).await
        }
        Err(panic) => WorkEnd::Panicked(panic),
    };
    // Asked only where it counts.
    let retry_policy = || shared.retry_policy_of(attempt.row.kind.as_str());
    Judge { attempt, retry_policy: &retry_policy, timeout, error_type }.verdict(ended)
}

/// How long the work may go on, and how long after it was told to stop.
struct TimeLimits {
    timeout: Option<Duration>,
    grace: Duration,
}

/// Polls the work until it returns, or has to be dropped.
async fn run(
    work: impl Future<Output = WorkEnd>,
    lease: &RunnerLease,
    attempt: &Attempt,
    limits: TimeLimits,
) -> WorkEnd {
    let mut work = std::pin::pin!(work);
    // Most work is done when it was polled once. What only longer work needs is in a box, since the size of this future is
    // most of what a task costs.
    match poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await {
        Poll::Ready(ended) => ended,
        Poll::Pending => Box::pin(wait(work, lease, attempt, limits)).await,
    }
}

async fn wait(
    mut work: Pin<&mut impl Future<Output = WorkEnd>>,
    lease: &RunnerLease,
    attempt: &Attempt,
    limits: TimeLimits,
) -> WorkEnd {
    // The work first, each time: work that is done counts, whatever happened meanwhile.
    let reason = tokio::select! {
        biased;
        ended = &mut work => return ended,
        reason = attempt.stop.requested() => reason,
        reason = over(limits.timeout, attempt) => reason,
    };
    if reason == StopReason::LeaseLost || limits.grace.is_zero() {
        return WorkEnd::Dropped;
    }
    tokio::select! {
        biased;
        ended = &mut work => ended,
        () = tokio::time::sleep(limits.grace) => WorkEnd::Dropped,
        () = lease.lost.cancelled() => WorkEnd::Dropped,
    }
}

/// Tells the work to stop when its time is over.
async fn over(timeout: Option<Duration>, attempt: &Attempt) -> StopReason {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => pending().await,
    }
    attempt.stop.request(StopReason::TimedOut)
}
