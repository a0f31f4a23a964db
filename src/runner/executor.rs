//! The executor: runs one attempt, whatever the worker does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::Instrument;

use super::Shared;
use super::completer::Ended;
use super::lease::Lease;
use super::span;
use super::track::Track;
use super::work::work;
use crate::job::JobRow;
use crate::store::{FinishResult, Verdict};
use crate::worker::{Attempt, StopReason};

/// Runs one attempt and sends its result to the completer.
pub(super) async fn execute(shared: Arc<Shared>, lease: Arc<Lease>, row: JobRow) {
    let span = span::of(&row);
    let attempt = Arc::new(Attempt {
        stop: shared.stop_of(row.id),
        row,
        worker: lease.id,
        client: shared.client.clone(),
        states: Arc::clone(&shared.states),
        is_completed_in: AtomicBool::new(false),
    });
    // A fetch may come back when the lease it was made under is lost already.
    if lease.lost.is_cancelled() {
        attempt.stop.request(StopReason::LeaseLost);
    }
    let track = shared.tracks.of(&attempt.row.kind, &attempt.row.queue);
    // Work that was told to stop before it began does not begin.
    if attempt.stop.reason().is_none() {
        track.started(&shared.client, &attempt.row);
    }
    let mut ending = Ending { shared, lease, attempt, track, verdict: None };
    let verdict = work(&ending.shared, &ending.lease, &ending.attempt).instrument(span.clone()).await;
    span::ended(&span, &ending.attempt.row, &verdict);
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
