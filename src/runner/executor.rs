//! The executor: runs one attempt, whatever the worker does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tracing::Instrument;

use super::Shared;
use super::completer::Ended;
use super::lease::Lease;
use super::slots::{Fetched, QueueSlots};
use super::span;
use super::track::Track;
use super::work::work;
use crate::ident::QueueName;
use crate::job::JobRow;
use crate::metrics::Timer;
use crate::store::{FinishResult, Verdict};
use crate::worker::{Attempt, StopReason};

/// Starts work in a slot, with this job.
pub(super) fn start(shared: &Arc<Shared>, job: Fetched) {
    shared.attempts.spawn(execute(Arc::clone(shared), job));
}

/// Works a slot: runs one attempt after another as long as there is a job fetched for the slot.
async fn execute(shared: Arc<Shared>, first: Fetched) {
    let mut slot = Slot { queue: Some(first.attempt.row.queue.clone()), shared };
    let mut next = Some(first);
    while let Some(job) = next {
        attempt(&slot.shared, job).await;
        next = slot.next();
    }
}

/// A slot in use. It is freed even if what a worker leaves behind panics when dropped.
struct Slot {
    shared: Arc<Shared>,
    /// `None`: freed.
    queue: Option<QueueName>,
}

impl Slot {
    /// The next job for the slot, which is free again when there is none.
    fn next(&mut self) -> Option<Fetched> {
        let is_stopping = self.shared.stopping.is_cancelled();
        let next = self.slots().and_then(|slots| slots.next(is_stopping, &self.shared.freed));
        if next.is_none() {
            self.queue = None;
        }
        next
    }

    fn slots(&self) -> Option<&QueueSlots> {
        self.shared.queue(self.queue.as_ref()?)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(slots) = self.slots() {
            slots.free(&self.shared.freed);
        }
    }
}

/// Makes a fetched row ready to be worked.
pub(super) fn prepare(shared: &Shared, lease: &Arc<Lease>, row: JobRow, since: Instant) -> Fetched {
    let track = shared.tracks.of(&row.kind, &row.queue);
    let attempt = Arc::new(Attempt {
        stop: Arc::default(),
        is_deleted: shared.keeping.deletes(&row),
        row,
        worker: lease.id,
        client: shared.client.clone(),
        states: Arc::clone(&shared.states),
        reports: Arc::clone(&shared.reports),
        is_completed_in: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
    });
    Fetched { lease: Arc::clone(lease), attempt, track, since }
}

/// Runs one attempt and sends its result to the completer.
pub(super) async fn attempt(shared: &Arc<Shared>, Fetched { lease, attempt, track, .. }: Fetched) {
    let span = span::of(&attempt.row);
    // A fetch may come back when the lease it was made under is lost already.
    if lease.lost.is_cancelled() {
        attempt.stop.request(StopReason::LeaseLost);
    }
    // Work that was told to stop before it began does not begin.
    let is_started = attempt.stop.reason().is_none();
    if is_started {
        track.started(&shared.client, &attempt.row);
    }
    let timer = Timer::start();
    let mut ending = Ending { shared: Arc::clone(shared), lease, attempt, track, verdict: None };
    let verdict = work(&ending.shared, &ending.lease, &ending.attempt).instrument(span.clone()).await;
    if is_started {
        ending.track.worked(timer);
    }
    span::ended(&span, &ending.attempt.row, &verdict);
    ending.verdict = Some(verdict);
}

/// Sends the result, even if what a worker leaves behind panics when dropped: else the job would run for ever under a lease that goes on.
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
        let progress = self.shared.reports.take(self.attempt.reporter(), &self.attempt.is_over);
        let result = FinishResult { id: row.id, attempt: row.attempt, verdict, progress };
        let is_deleted = self.attempt.is_deleted;
        let was_completed_in = self.attempt.is_completed_in.load(Ordering::Acquire);
        // The completer outlives every attempt, so somebody receives this.
        let (lease, stop) = (Arc::clone(&self.lease), Arc::clone(&self.attempt.stop));
        let track = Arc::clone(&self.track);
        let _ = self.shared.ended.send(Ended { lease, stop, track, result, is_deleted, was_completed_in });
    }
}
