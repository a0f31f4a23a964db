//! A look: one fetch, from what is wanted to its jobs in the hands of the executor.
//!
//! Two may be under way at once, where a runner has as many slots as a look brings jobs. They may then divide
//! the next jobs between them in any way, so order is exact only as far as it is over two runners: which
//! of so many start first among those that run at once anyway. With fewer slots there is one look at a time,
//! and jobs start in the order of work.
//!
//! In a backlog a look for many jobs of a queue first waits for its turn: two are at it at once, of all runners. More would
//! walk over each other's jobs, the more of them the longer. Nothing but time depends on it: where its turn does not come,
//! it looks without.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgConnection;

use super::completer::Ended;
use super::lease::Lease;
use super::panics::wait_after;
use super::scan::Scan;
use super::slots::QueueSlots;
use super::{Shared, executor};
use crate::error::Result;
use crate::metrics::Timer;
use crate::store::{self, FinishResult, Slots, Taken, Unreadable, Verdict};
use crate::worker::Stop;

/// A look that wants so many jobs of a queue takes turns with others. A smaller one is done before that would be worth the
/// ways to the database that it takes.
const MANY: usize = 500;

/// How long a look waits for its turn, and for which part of a lease, at most.
const PATIENCE: Duration = Duration::from_secs(5);
const PATIENCE_OF_LEASE: u32 = 4;

/// What a look is for. While it lives, the queues count on it.
pub(super) struct Wanted {
    shared: Arc<Shared>,
    slots: Vec<Slots>,
    /// Whether it is for one queue only, of whose jobs the runner was told.
    is_told: bool,
    /// Whether it takes turns with others where it wants many.
    takes_turn: bool,
}

impl Wanted {
    /// What the queues want now. `None`: nothing, or too many results wait to be recorded. Where the runner was told of
    /// jobs in a queue, that queue comes first, alone, unless the last look `was_told`: of two in a row one is at all
    /// queues, so that none waits for another, and what holds a queue back is heeded. A look in a backlog `takes_turn`.
    pub(super) fn now(shared: &Arc<Shared>, was_told: bool, takes_turn: bool) -> Option<Self> {
        if shared.is_behind() {
            return None;
        }
        let told = shared.queues.iter().find(|queue| !was_told && queue.is_told());
        let told = told.and_then(|queue| Self::of(shared, std::slice::from_ref(queue), true, false));
        told.or_else(|| Self::of(shared, &shared.queues, false, takes_turn))
    }

    /// Whether it is for one queue only.
    pub(super) const fn is_told(&self) -> bool {
        self.is_told
    }

    fn of(shared: &Arc<Shared>, queues: &[QueueSlots], is_told: bool, takes_turn: bool) -> Option<Self> {
        let slots = queues.iter().map(|queue| Slots { queue: queue.name.clone(), free: queue.want() });
        let slots: Vec<_> = slots.filter(|slots| slots.free > 0).collect();
        (!slots.is_empty()).then(|| Self { shared: Arc::clone(shared), slots, is_told, takes_turn })
    }

    /// The queue at which it takes its turn: that of which it wants most.
    fn turn(&self) -> Option<&str> {
        let most = self.slots.iter().max_by_key(|slots| slots.free)?;
        (self.takes_turn && most.free >= MANY).then_some(most.queue.as_str())
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        for Slots { queue, free } in &self.slots {
            if let Some(queue) = self.shared.queue(queue) {
                queue.came(*free);
            }
        }
    }
}

/// What came of a look.
#[derive(Default)]
pub(super) struct Looked {
    pub(super) fetched: usize,
    /// Whether there is probably more.
    pub(super) is_full: bool,
    /// Whether it was at one queue only.
    pub(super) is_told: bool,
    /// Whether there may be jobs that it was not allowed to take.
    pub(super) is_held_back: bool,
    /// Whether its turn did not come in time.
    pub(super) missed_turn: bool,
}

/// Fetches once and hands the jobs to the executor.
pub(super) async fn look(
    shared: Arc<Shared>,
    lease: Arc<Lease>,
    wanted: Wanted,
    scan: Arc<Mutex<Scan>>,
) -> Result<Looked> {
    let mut timer = Timer::start();
    let mut connection = shared.desk.connection().await?;
    let (mut is_in_turn, mut missed_turn) = (false, false);
    if let Some(queue) = wanted.turn() {
        let patience = PATIENCE.min(shared.leases.term / PATIENCE_OF_LEASE);
        let turn = store::begin_turn(&mut connection, shared.client.statements(), queue, patience);
        is_in_turn = tokio::select! {
            turn = shared.desk.answer(turn) => match turn {
                // Under a short lease the server ends the statement first.
                Err(error) if error.is_statement_timeout() => {
                    drop(connection);
                    connection = shared.desk.connection().await?;
                    false
                }
                turn => turn?,
            },
            // Nothing is taken yet.
            () = shared.stopping.cancelled() => return Ok(Looked::default()),
        };
        missed_turn = !is_in_turn;
        // The wait says how many others fetch, and nothing of the fetch.
        timer = Timer::start();
    }
    let heard_before = shared.control.heard();
    let taken = shared.desk.answer(take(&wanted, &lease, &scan, &mut connection, is_in_turn)).await;
    let (taken, is_held_back) = match taken {
        // What was begun ends with the connection.
        Err(error) if is_in_turn => return Err(error),
        taken => connection.settle(taken)?,
    };
    // From here to the end nothing waits, and nothing fails: what is in hand is started, or lies in its queue.
    let fetched = taken.count();
    shared.meter.fetched(timer, fetched);
    let Taken { jobs, unreadable } = taken;
    let now = Instant::now();
    let jobs: Vec<_> = jobs.into_iter().map(|row| executor::prepare(&shared, &lease, row, now)).collect();
    let unreadable: Vec<_> = unreadable.into_iter().map(|job| (job, Arc::<Stop>::default())).collect();
    let readable = jobs.iter().map(|job| (job.attempt.row.id, job.attempt.row.run, Arc::clone(&job.attempt.stop)));
    let failed = unreadable.iter().map(|(job, stop)| (job.id, job.run, Arc::clone(stop)));
    shared.take_in_hand(lease.id, readable.chain(failed));
    if fetched > 0 && shared.control.heard() != heard_before {
        shared.control.hear();
    }
    for (Unreadable { id, kind, queue, attempt, run, problem }, stop) in unreadable {
        tracing::error!(job.id = %id, problem, "a job cannot be worked");
        let verdict = Verdict::Retry { delay: wait_after(shared.retry_policy, attempt), error: problem };
        let result = FinishResult { id, attempt, run, verdict, progress: None };
        let (lease, track) = (Arc::clone(&lease), shared.tracks.of(&kind, &queue));
        let _ = shared.ended.send(Ended { lease, stop, track, result, is_deleted: false, may_be_completed: false });
    }
    for job in jobs {
        // Fetched by queue, so it is one of them.
        if let Some(queue) = shared.queue(&job.attempt.row.queue) {
            queue.put(job);
        }
    }
    executor::call_all(&shared);
    let free = wanted.slots.iter().fold(0, |sum: usize, slot| sum.saturating_add(slot.free));
    Ok(Looked { fetched, is_full: fetched == free, is_told: wanted.is_told, is_held_back, missed_turn })
}

/// Fetches what is wanted. Answers also whether there may be jobs that it was not allowed to take. What a look at one
/// queue met, the next one at all of them tells the scan.
async fn take(
    wanted: &Wanted,
    lease: &Lease,
    scan: &Mutex<Scan>,
    connection: &mut PgConnection,
    is_in_turn: bool,
) -> Result<(Taken, bool)> {
    let Wanted { shared, slots, is_told, .. } = wanted;
    let statements = shared.client.statements();
    let (depth, places) = lock(scan).begin(Instant::now());
    if let [slots] = slots.as_slice()
        && *is_told
        && places.is_empty()
    {
        let taken = store::fetch_queue(connection, statements, lease.id, slots, &shared.kinds).await?;
        return Ok((taken, false));
    }
    let fetched = store::fetch(connection, statements, lease.id, slots, &shared.kinds, &places, is_in_turn).await?;
    lock(scan).remember(depth, slots, &fetched, Instant::now());
    for Slots { queue, .. } in slots {
        if let Some(queue) = shared.queue(queue) {
            queue.limit(fetched.limited.contains(&queue.name));
        }
    }
    Ok((fetched.taken, !fetched.held_back.is_empty()))
}

fn lock(scan: &Mutex<Scan>) -> MutexGuard<'_, Scan> {
    // Nothing panics while it holds the lock.
    scan.lock().unwrap_or_else(PoisonError::into_inner)
}
