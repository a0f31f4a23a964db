//! The executor: works the fetched jobs, each in a slot of its queue.
//!
//! A slot is a task: it works one job after another, as long as jobs wait in its queue. It yields after each job, since
//! the next one may block its thread: tasks that the last job woke, the completer among them, run first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tracing::Instrument;

use super::work::work;
use crate::runner::fetching::slots::UnstartedJob;
use crate::runner::life::lease::RunnerLease;
use crate::runner::recording::result::{Ended, RunTimes};
use crate::runner::shared::Shared;
use crate::runner::telemetry;
use crate::store::{RunResult, StoredError, Verdict};
use crate::words::job::JobRow;
use crate::worker::panics::wait_after;
use crate::worker::{Attempt, StopReason};

/// Fills free slots with the jobs that wait for them, in every queue.
pub(in crate::runner) fn fill_slots(shared: &Arc<Shared>) {
    let mut has_started = false;
    for place in 0..shared.queues.len() {
        // At a stop the jobs that wait are given back.
        while !shared.signals.stopping.is_cancelled()
            && let Some(job) = shared.queues[place].start()
        {
            let slot = Slot { shared: Arc::clone(shared), place, is_taken: true };
            shared.tasks.attempts.spawn(slot.work(job));
            has_started = true;
        }
    }
    if has_started {
        // Only this thread runs the task that it spawned last, and no other thread is woken for it. A job that blocks its
        // thread would leave the runtime without one that waits for connections and timers.
        tokio::spawn(std::future::ready(()));
    }
}

/// A slot with a job in it. It is free again even if a panic ends its task.
struct Slot {
    shared: Arc<Shared>,
    /// The place of the queue among the runner's queues.
    place: usize,
    is_taken: bool,
}

impl Slot {
    /// Works jobs until none waits for this slot.
    async fn work(mut self, first: UnstartedJob) {
        let mut next = Some(first);
        while let Some(job) = next {
            attempt(Arc::clone(&self.shared), job).await;
            tokio::task::yield_now().await;
            next = self.next();
        }
    }

    /// The slot's next job. Without one the slot is free.
    fn next(&mut self) -> Option<UnstartedJob> {
        let signals = &self.shared.signals;
        let (next, has_room) = self.shared.queues[self.place].next(signals.stopping.is_cancelled());
        if has_room {
            signals.freed.notify_one();
        }
        self.is_taken = next.is_some();
        next
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.is_taken {
            self.shared.queues[self.place].free();
            // The producer fills the slot again.
            self.shared.signals.freed.notify_one();
        }
    }
}

/// Makes a fetched row ready to be worked.
pub(in crate::runner) fn prepare(
    shared: &Shared,
    lease: &Arc<RunnerLease>,
    row: JobRow,
    since: Instant,
) -> UnstartedJob {
    let telemetry = shared.telemetry.of(&row.kind, &row.queue);
    let attempt = Arc::new(Attempt {
        stop: Arc::default(),
        is_deleted: shared.retention.deletes(&row),
        row,
        worker: lease.id,
        client: shared.client.clone(),
        states: Arc::clone(&shared.workers.states),
        reports: Arc::clone(&shared.workers.reports),
        is_completed_in: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
    });
    UnstartedJob { lease: Arc::clone(lease), attempt, telemetry, since }
}

/// Runs one attempt and sends its result to the completer.
pub(in crate::runner) async fn attempt(shared: Arc<Shared>, job: UnstartedJob) {
    let UnstartedJob { lease, attempt, telemetry, .. } = &job;
    let span = telemetry::span(&attempt.row);
    // A fetch may be answered when the lease it was made under is lost already.
    if lease.lost.is_cancelled() {
        attempt.stop.request(StopReason::LeaseLost);
    }
    // An attempt that was told to stop before it began does not begin.
    let is_started = attempt.stop.reason().is_none();
    if is_started {
        telemetry.started(&shared.client, &attempt.row);
    }
    let started_at = is_started.then(Instant::now);
    let mut ending = ResultOnDrop { shared, job, started_at, verdict: None };
    let verdict = work(&ending.shared, &ending.job.lease, &ending.job.attempt).instrument(span.clone()).await;
    if let Some(at) = started_at {
        ending.job.telemetry.worked(at);
    }
    telemetry::end_span(&span, &ending.job.attempt.row, &verdict);
    ending.verdict = Some(verdict);
}

/// Sends the result when it is dropped, also by a panic of the worker's future when that is dropped. Without a result the
/// job would run for ever, under a lease that goes on.
struct ResultOnDrop {
    shared: Arc<Shared>,
    job: UnstartedJob,
    started_at: Option<Instant>,
    verdict: Option<Verdict>,
}

impl Drop for ResultOnDrop {
    fn drop(&mut self) {
        let Self { shared, job, started_at, verdict } = self;
        let attempt = &job.attempt;
        let verdict = verdict.take().unwrap_or_else(|| Verdict::Retry {
            delay: wait_after(shared.options.retry_policy, attempt.row.attempt),
            error: StoredError::coded("panicked", "panicked while the work was dropped"),
        });
        let progress = attempt.reports.take(attempt.reporter(), &attempt.is_over);
        let is_deleted = attempt.is_deleted;
        shared.send(Ended {
            may_be_completed: attempt.is_completed_in.load(Ordering::Acquire),
            times: started_at.map(|at| RunTimes { waited: telemetry::waited(&attempt.row), took: at.elapsed() }),
            ..job.ended(RunResult { progress, is_deleted, ..RunResult::of(&attempt.row, verdict) })
        });
    }
}
