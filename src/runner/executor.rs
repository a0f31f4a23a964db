//! The executor: runs one attempt, whatever the worker does.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tracing::Instrument;

use super::Shared;
use super::completer::Ended;
use super::lease::Lease;
use super::track::Track;
use crate::job::JobRow;
use crate::outcome::{BoxError, Outcome};
use crate::store::{FinishResult, Verdict};
use crate::worker::{AnyWorker, Attempt, StopReason};

/// Runs one attempt and sends its result to the completer.
pub(super) async fn execute(shared: Arc<Shared>, lease: Arc<Lease>, row: JobRow) {
    let span = tracing::info_span!(
        "job", job.id = %row.id, job.kind = %row.kind, queue = %row.queue, attempt = row.attempt
    );
    let attempt = Arc::new(Attempt {
        stop: shared.stop_of(row.id),
        row,
        worker: lease.id,
        client: shared.client.clone(),
        is_completed_in: AtomicBool::new(false),
    });
    // A fetch may come back when the lease it was made under is lost already.
    if lease.lost.is_cancelled() {
        attempt.stop.request(StopReason::LeaseLost);
    }
    let track = shared.tracks.of(&attempt.row.kind, &attempt.row.queue);
    track.started(&shared.client, &attempt.row);
    let mut ending = Ending { shared, lease, attempt, track, verdict: None };
    let verdict = run(&ending.shared, &ending.attempt).instrument(span).await;
    ending.verdict = Some(verdict);
}

/// Frees the slot and sends the result, even if what a worker leaves behind panics when dropped:
/// else the job would run for ever under a lease that goes on.
struct Ending {
    shared: Arc<Shared>,
    lease: Arc<Lease>,
    attempt: Arc<Attempt>,
    track: Arc<Track>,
    verdict: Option<Verdict>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let row = &self.attempt.row;
        let verdict = self.verdict.take().unwrap_or_else(|| Verdict::Retry {
            delay: self.shared.retry_policy.wait_after(row.attempt),
            error: "panicked while the work was dropped".to_owned(),
        });
        if let Some(queue) = self.shared.queue(&row.queue) {
            queue.running.fetch_sub(1, Ordering::AcqRel);
        }
        let result = FinishResult { id: row.id, attempt: row.attempt, verdict };
        let was_completed_in = self.attempt.is_completed_in.load(Ordering::Acquire);
        // The completer outlives every attempt, so somebody receives this.
        let (lease, stop) = (Arc::clone(&self.lease), Arc::clone(&self.attempt.stop));
        let track = Arc::clone(&self.track);
        let _ = self.shared.ended.send(Ended { lease, stop, track, result, was_completed_in });
        self.shared.freed.notify_one();
    }
}

async fn run(shared: &Shared, attempt: &Arc<Attempt>) -> Verdict {
    let Some(worker) = shared.workers.worker(attempt.row.kind.as_str()) else {
        // Fetched by kind, so this cannot be; if it is, the job is for somebody else.
        return Verdict::GiveBack;
    };
    let outcome = tokio::select! {
        outcome = catching(worker.as_ref(), attempt) => outcome,
        _ = attempt.stop.requested() => return Verdict::GiveBack,
    };
    let retry_policy = worker.retry_policy().unwrap_or(shared.retry_policy);
    let retry = |error: String| Verdict::Retry { delay: retry_policy.wait_after(attempt.row.attempt), error };
    let was_completed_in = attempt.is_completed_in.load(Ordering::Acquire);
    match outcome {
        // The row is completed already if the transaction committed, and then this result is
        // dropped by the fence. If not, the effects are gone, and so must be the completion.
        Ok(_) if was_completed_in => retry("the transaction that completed the job did not commit".to_owned()),
        Ok(Outcome::Complete { output }) => Verdict::Complete { output },
        Ok(Outcome::Retry { after, reason }) => Verdict::Retry { delay: after, error: reason },
        Ok(Outcome::Snooze { after }) => Verdict::Snooze { delay: after },
        Ok(Outcome::Cancel { reason }) => Verdict::Cancel { reason },
        Ok(Outcome::Discard { reason }) => Verdict::Discard { reason },
        Err(error) => {
            let error = with_causes(error.as_ref());
            tracing::info!(error, "attempt failed");
            retry(error)
        }
    }
}

/// Runs the worker, and makes an error of a panic.
async fn catching(worker: &dyn AnyWorker, attempt: &Arc<Attempt>) -> Result<Outcome, BoxError> {
    let mut work = worker.work(Arc::clone(attempt));
    poll_fn(move |context| {
        // After a panic the future is dropped and never polled again.
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(Err(panic_text(panic.as_ref()).into())),
        }
    })
    .await
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let message =
        panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref::<String>().cloned());
    match message {
        Some(message) => format!("panicked: {message}"),
        None => "panicked".to_owned(),
    }
}

/// The error's text with those of its causes, each once.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = inner.source();
    }
    text
}
