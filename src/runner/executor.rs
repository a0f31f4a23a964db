//! The executor: begins the jobs that lie in the queues, and runs each attempt, whatever the worker does.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::task::coop::has_budget_remaining;
use tracing::Instrument;

use super::Shared;
use super::completer::Ended;
use super::lease::Lease;
use super::panics::wait_after;
use super::slots::Fetched;
use super::span;
use super::track::Track;
use super::work::work;
use crate::job::JobRow;
use crate::metrics::Timer;
use crate::store::{FinishResult, Verdict};
use crate::worker::{Attempt, StopReason};

/// How long one task goes on from job to job before it leaves the next to others, so that they have their turn.
const TURN: Duration = Duration::from_micros(100);

/// After work that took no longer than this, [`make_way`] heeds only what the runner itself woke: more would cost as
/// much as the work. What such a job woke of the application's waits if the next job blocks its thread.
const LIGHT: Duration = Duration::from_micros(20);

thread_local! {
    /// Whether a task was woken on this thread since [`make_way`]. No other thread takes the latest one from this one.
    static HAS_WOKEN: Cell<bool> = const { Cell::new(false) };
}

/// Calls a puller to a queue, given by its place, if jobs lie there that may start and none is on its way.
///
/// Much work is done when it was polled once, and a task for each such job would cost more than the job. So a
/// puller begins one job after another, and only what then waits goes on in a task of its own.
fn call(shared: &Arc<Shared>, place: usize) {
    // At a stop what lies there is given back.
    if !shared.stopping.is_cancelled() && shared.queues[place].calls() {
        shared.attempts.spawn(pull(Arc::clone(shared), place));
        HAS_WOKEN.set(true);
    }
}

/// Calls pullers wherever jobs lie that may start.
pub(super) fn call_all(shared: &Arc<Shared>) {
    (0..shared.queues.len()).for_each(|place| call(shared, place));
}

/// Makes sure that work which blocks its thread holds up nobody else while there are other threads: the next puller
/// is on its way, and what was woken here is not the latest, so that another thread can take it.
fn make_way(shared: &Arc<Shared>, place: usize) {
    call(shared, place);
    if HAS_WOKEN.replace(false) {
        tokio::spawn(std::future::ready(()));
    }
}

/// Begins the jobs that lie in a queue.
async fn pull(shared: Arc<Shared>, place: usize) {
    shared.queues[place].came_to_pull();
    let mut slot = Slot { shared, place, is_taken: false };
    let since = Instant::now();
    let mut passed = Duration::ZERO;
    while let Some(job) = slot.next() {
        make_way(&slot.shared, place);
        let mut attempt = Box::pin(attempt(Arc::clone(&slot.shared), job));
        if poll_fn(|context| Poll::Ready(attempt.as_mut().poll(context))).await.is_pending() {
            let is_taken = std::mem::take(&mut slot.is_taken);
            let waiting = Slot { shared: Arc::clone(&slot.shared), place, is_taken };
            slot.shared.attempts.spawn(go_on(waiting, attempt));
            HAS_WOKEN.set(true);
        }
        let before = std::mem::replace(&mut passed, since.elapsed());
        if passed >= TURN || !has_budget_remaining() {
            break;
        }
        if passed - before > LIGHT {
            HAS_WOKEN.set(true);
        }
    }
    slot.leave();
}

/// Ends the attempt that is in a slot.
async fn go_on(slot: Slot, attempt: impl Future<Output = ()>) {
    attempt.await;
    slot.leave();
}

/// A place for a job that runs. It is free again even if what a worker leaves behind panics when dropped.
struct Slot {
    shared: Arc<Shared>,
    /// The queue's place.
    place: usize,
    is_taken: bool,
}

impl Slot {
    /// The slot's next job. Without one the slot is free.
    fn next(&mut self) -> Option<Fetched> {
        let Shared { queues, stopping, freed, .. } = &*self.shared;
        let (next, has_room) = queues[self.place].next(self.is_taken, stopping.is_cancelled());
        if has_room {
            freed.notify_one();
            HAS_WOKEN.set(true);
        }
        self.is_taken = next.is_some();
        next
    }

    /// Leaves the slot to the next puller.
    fn leave(mut self) {
        if std::mem::take(&mut self.is_taken) && self.shared.queues[self.place].free() {
            self.shared.freed.notify_one();
        }
        call(&self.shared, self.place);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.is_taken {
            self.shared.queues[self.place].free();
            // The producer calls the next puller.
            self.shared.freed.notify_one();
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
pub(super) async fn attempt(shared: Arc<Shared>, Fetched { lease, attempt, track, .. }: Fetched) {
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
    let mut ending = Ending { shared, lease, attempt, track, verdict: None };
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
            delay: wait_after(self.shared.retry_policy, row.attempt),
            error: "panicked while the work was dropped".to_owned(),
        });
        let progress = self.shared.reports.take(self.attempt.reporter(), &self.attempt.is_over);
        let result = FinishResult { progress, ..FinishResult::of(row, verdict) };
        let is_deleted = self.attempt.is_deleted;
        let may_be_completed = self.attempt.is_completed_in.load(Ordering::Acquire);
        // The completer outlives every attempt, so somebody receives this.
        let (lease, stop) = (Arc::clone(&self.lease), Arc::clone(&self.attempt.stop));
        let track = Arc::clone(&self.track);
        let _ = self.shared.ended.send(Ended { lease, stop, track, result, is_deleted, may_be_completed });
        if self.shared.is_completer_waiting.swap(false, Ordering::AcqRel) {
            HAS_WOKEN.set(true);
        }
    }
}
