//! The work of one attempt: runs it, and stops it when it must stop.
//!
//! ```text
//!            ┌── returns ────────────────────────────▶ its result
//! started ───┤                       ┌── returns ────▶ its result, within the grace
//!            └── told to stop ─grace─┤
//!                                    └── time is up ─▶ none: it is dropped
//! ```
//!
//! Nothing can stop work that never awaits: it is asked and dropped between two polls.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::lease::Lease;
use super::panics::catching;
use super::verdict::{Judge, Work};
use crate::store::Verdict;
use crate::worker::{Attempt, StopReason};

/// Runs the worker and says what becomes of the job.
pub(super) async fn work(shared: &Shared, lease: &Lease, attempt: &Arc<Attempt>) -> Verdict {
    let Some(worker) = shared.workers.worker(attempt.row.kind.as_str()) else {
        // Fetched by kind, so this cannot be; if it is, the job is for somebody else.
        return Verdict::GiveBack;
    };
    // Where the job is another's, or final, the fence drops this.
    if attempt.stop.reason().is_some() {
        return Verdict::GiveBack;
    }
    let ended = run(catching(worker.work(Arc::clone(attempt))), lease, attempt, shared.stop_grace).await;
    let retry_policy = worker.retry_policy().unwrap_or(shared.retry_policy);
    Judge { attempt, retry_policy }.verdict(ended)
}

/// Polls the work until it returns, or has to be dropped.
async fn run(work: impl Future<Output = Work>, lease: &Lease, attempt: &Attempt, grace: Duration) -> Work {
    let mut work = std::pin::pin!(work);
    // The work first, each time: what is done counts, whatever happened meanwhile.
    let reason = tokio::select! {
        biased;
        ended = &mut work => return ended,
        reason = attempt.stop.requested() => reason,
    };
    if reason == StopReason::LeaseLost || grace.is_zero() {
        return Work::Dropped;
    }
    tokio::select! {
        biased;
        ended = &mut work => ended,
        () = tokio::time::sleep(grace) => Work::Dropped,
        () = lease.lost.cancelled() => Work::Dropped,
    }
}
