//! One fetch: from the number of jobs that the queues want to the jobs in their slots.

use std::sync::Arc;
use std::time::Instant;

use uuid::Uuid;

use super::cursor::Cursor;
use super::executor;
use super::lease::Lease;
use super::panics::wait_after;
use super::result::Ended;
use super::shared::Shared;
use super::slots::QueueSlots;
use crate::error::Result;
use crate::metrics::Timer;
use crate::store::{self, Fetched, RunResult, Slots, Unreadable, Verdict};
use crate::worker::Stop;

/// What came of a fetch.
pub(super) struct Found {
    pub(super) jobs: usize,
    /// Whether it brought all that was wanted, so that there are probably more jobs.
    pub(super) is_full: bool,
    /// Whether there may be jobs that it was not allowed to take.
    pub(super) is_held_back: bool,
}

/// How many jobs the queues want now. Empty: none, or too many results wait to be recorded.
pub(super) fn wanted(shared: &Shared) -> Vec<Slots> {
    let not_ended = shared.queues.iter().map(QueueSlots::count).sum();
    if shared.runs.are_too_many(not_ended) {
        return Vec::new();
    }
    let slots = shared.queues.iter().map(|queue| Slots { queue: queue.name.clone(), free: queue.want() });
    slots.filter(|slots| slots.free > 0).collect()
}

/// Fetches once, and starts the jobs as far as slots are free.
pub(super) async fn fetch(
    shared: &Arc<Shared>,
    lease: &Arc<Lease>,
    wanted: &[Slots],
    cursor: &mut Cursor,
    except: &[Uuid],
) -> Result<Found> {
    let timer = Timer::start();
    let taken_away_before = shared.runs.taken_away();
    let (depth, positions) = cursor.begin(Instant::now());
    let mut connection = shared.connections.connection().await?;
    let statements = shared.client.statements();
    let kinds = &shared.workers.kinds;
    let fetching = store::fetch(&mut connection, statements, lease.id, wanted, kinds, &positions, except);
    let fetched = shared.connections.answer(fetching).await;
    let fetched = connection.settle(fetched)?;
    cursor.remember(depth, wanted, &fetched, Instant::now());
    let found = Found {
        jobs: fetched.count(),
        is_full: fetched.count() == wanted.iter().fold(0, |sum: usize, slots| sum.saturating_add(slots.free)),
        is_held_back: !fetched.held_back.is_empty(),
    };
    shared.telemetry.runner.fetched(timer, found.jobs);
    for Slots { queue, .. } in wanted {
        if let Some(queue) = shared.queue(queue) {
            queue.limit(fetched.limited.contains(&queue.name));
        }
    }
    hand_over(shared, lease, fetched);
    if found.jobs > 0 && shared.runs.taken_away() != taken_away_before {
        shared.runs.note_taken_away();
    }
    Ok(found)
}

/// Takes fetched jobs in hand and starts them, or leaves them waiting for a slot. Nothing here waits or fails, so no job
/// is lost between its fetch and its slot.
fn hand_over(shared: &Arc<Shared>, lease: &Arc<Lease>, fetched: Fetched) {
    let now = Instant::now();
    let jobs: Vec<_> = fetched.jobs.into_iter().map(|row| executor::prepare(shared, lease, row, now)).collect();
    let unreadable: Vec<_> = fetched.unreadable.into_iter().map(|job| (job, Arc::<Stop>::default())).collect();
    let readable = jobs.iter().map(|job| (job.attempt.row.id, job.attempt.row.run, Arc::clone(&job.attempt.stop)));
    let failed = unreadable.iter().map(|(job, stop)| (job.id, job.run, Arc::clone(stop)));
    shared.runs.take(lease.id, readable.chain(failed));
    for (Unreadable { id, kind, queue, attempt, run, problem }, stop) in unreadable {
        tracing::error!(job.id = %id, problem, "a job cannot be worked");
        let verdict = Verdict::Retry { delay: wait_after(shared.workers.retry_policy, attempt), error: problem };
        let result = RunResult { id, attempt, run, verdict, progress: None, is_deleted: false };
        let telemetry = shared.telemetry.of(&kind, &queue);
        shared.send(Ended { lease: Arc::clone(lease), stop, telemetry, result, may_be_completed: false });
    }
    for job in jobs {
        // The job was fetched by queue, so the queue is one of the runner's.
        if let Some(queue) = shared.queue(&job.attempt.row.queue) {
            queue.put(job);
        }
    }
    executor::fill_slots(shared);
}
