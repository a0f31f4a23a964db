//! The producer: keeps the free slots filled.
//!
//! Sleeping without missing a job: the runner first tells the database that it is idle, so that
//! inserts notify, and then looks once more. An insert that was under way meanwhile may commit
//! later still, so the first polls after falling asleep come quickly, and then ever more rarely. A
//! runner that stays busy says so, and no insert pays for a NOTIFY.

use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::completer::Ended;
use super::lease::Lease;
use super::scan::Scan;
use super::slots::{self, QueueSlots};
use super::{GrowingWait, Shared, executor};
use crate::error::Result;
use crate::metrics::{self, Timer};
use crate::store::{self, Fetched, FinishResult, Slots, Unreadable, Verdict};

/// The wait before the first poll of a runner that found nothing.
const FIRST_POLL: Duration = Duration::from_millis(10);

/// The longest wait where a queue is at its limit: nobody tells of a place that somebody else's job
/// frees.
const HELD_BACK_POLL: Duration = Duration::from_secs(1);

/// So many full fetches in a row make a runner busy.
const BUSY_AFTER: u32 = 3;

pub(super) async fn produce(shared: Arc<Shared>) {
    let mut sleeper = Sleeper::new(&shared);
    let mut failure_wait = GrowingWait::new();
    let mut doubt = Doubt::default();
    let mut scan = Scan::new(Instant::now());
    while !shared.stopping.is_cancelled() {
        let lease = shared.leases.current();
        start_left_over(&shared);
        give_back_stale(&shared);
        tell_load(&shared);
        let slots = wanted(&shared);
        if slots.is_empty() || lease.lost.is_cancelled() {
            tokio::select! {
                () = shared.stopping.cancelled() => break,
                () = shared.freed.notified() => {}
                () = stale(&shared) => {}
            }
            continue;
        }
        doubt.resolve(&shared, &lease).await;
        let wanted = slots.iter().fold(0, |sum: usize, slot| sum.saturating_add(slot.free));
        match fetch(&shared, &lease, &slots, &mut scan).await {
            Ok(0) => {
                failure_wait.reset();
                sleeper.sleep(scan.is_held_back()).await;
            }
            Ok(fetched) => {
                failure_wait.reset();
                sleeper.found(fetched == wanted).await;
            }
            Err(error) => {
                tracing::warn!(%error, "fetch failed, trying again");
                doubt.begin(shared.leases.term);
                tokio::select! {
                    () = shared.stopping.cancelled() => break,
                    () = tokio::time::sleep(failure_wait.grow()) => {}
                }
            }
        }
    }
    for queue in &shared.queues {
        give_back(&shared, queue.clear());
    }
}

/// Tells what each queue is busy with.
fn tell_load(shared: &Shared) {
    if !metrics::IS_COUNTING {
        return;
    }
    for (place, queue) in shared.queues.iter().enumerate() {
        shared.meter.load(place, queue.load());
    }
}

fn wanted(shared: &Shared) -> Vec<Slots> {
    shared
        .queues
        .iter()
        .map(|queue| Slots { queue: queue.name.clone(), free: queue.wanted() })
        .filter(|slots| slots.free > 0)
        .collect()
}

fn start(shared: &Arc<Shared>, job: slots::Fetched) {
    shared.attempts.spawn(executor::execute(Arc::clone(shared), job));
}

/// Starts what lies here although a slot is free: the slot became free while the job was on its way.
fn start_left_over(shared: &Arc<Shared>) {
    for queue in &shared.queues {
        while let Some(job) = queue.left_over() {
            start(shared, job);
        }
    }
}

/// Resolves when something has lain here for too long.
async fn stale(shared: &Shared) {
    match shared.queues.iter().filter_map(QueueSlots::waits_until).min() {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// Gives back what was fetched ahead of jobs that turned out slow.
fn give_back_stale(shared: &Shared) {
    let now = Instant::now();
    for queue in &shared.queues {
        if queue.waits_until().is_some_and(|deadline| deadline <= now) {
            give_back(shared, queue.clear());
        }
    }
}

/// Gives jobs back that were not started, without using up their attempts.
fn give_back(shared: &Shared, jobs: impl IntoIterator<Item = slots::Fetched>) {
    for slots::Fetched { lease, row, .. } in jobs {
        let (stop, track) = (shared.stop_of(row.id), shared.tracks.of(&row.kind, &row.queue));
        let result = FinishResult::new(row.id, row.attempt, Verdict::GiveBack);
        let _ = shared.ended.send(Ended { lease, stop, track, result, is_deleted: false, was_completed_in: false });
    }
}

/// Fetches once and hands the jobs to the executor. Answers how many it was.
async fn fetch(shared: &Arc<Shared>, lease: &Arc<Lease>, slots: &[Slots], scan: &mut Scan) -> Result<usize> {
    let timer = Timer::start();
    let mut connection = shared.desk.connection().await?;
    let depth = scan.depth(Instant::now());
    let places = scan.places(depth);
    let heard_before = shared.control.heard();
    let statements = shared.client.statements();
    let fetching = store::fetch(&mut connection, statements, lease.id, slots, &shared.kinds, &places);
    let fetched = shared.desk.answer(fetching).await;
    let fetched = connection.settle(fetched)?;
    scan.remember(depth, slots, &fetched, Instant::now());
    for Slots { queue, .. } in slots {
        if let Some(queue) = shared.queue(queue) {
            queue.limit(fetched.limited.contains(&queue.name));
        }
    }
    let Fetched { jobs, unreadable, .. } = fetched;
    let fetched = jobs.len() + unreadable.len();
    shared.meter.fetched(timer, fetched);
    let attempts = jobs.iter().map(|row| (row.id, row.attempt));
    shared.take_in_hand(lease.id, attempts.chain(unreadable.iter().map(|job| (job.id, job.attempt))));
    if fetched > 0 && shared.control.heard() != heard_before {
        shared.control.hear();
    }
    for Unreadable { id, kind, queue, attempt, problem } in unreadable {
        tracing::error!(job.id = %id, problem, "a job cannot be worked");
        let verdict = Verdict::Retry { delay: shared.retry_policy.wait_after(attempt), error: problem };
        let result = FinishResult::new(id, attempt, verdict);
        let (lease, stop, track) = (Arc::clone(lease), shared.stop_of(id), shared.tracks.of(&kind, &queue));
        let _ = shared.ended.send(Ended { lease, stop, track, result, is_deleted: false, was_completed_in: false });
    }
    for row in jobs {
        let queue = shared.queue(&row.queue);
        let job = slots::Fetched::new(Arc::clone(lease), row);
        if let Some(job) = queue.and_then(|queue| queue.admit(job)) {
            start(shared, job);
        }
    }
    Ok(fetched)
}

/// Whether the database may have given this runner jobs that it does not know of. A fetch that
/// failed can have worked all the same, and can even work later, where only the connection broke.
#[derive(Default)]
struct Doubt {
    until: Option<Instant>,
}

impl Doubt {
    fn begin(&mut self, term: Duration) {
        self.until = Some(Instant::now() + term);
    }

    /// Gives back what is not in hand. Nothing is on its way meanwhile: only the producer fetches.
    async fn resolve(&mut self, shared: &Shared, lease: &Lease) {
        let Some(until) = self.until else { return };
        let is_last = Instant::now() >= until;
        let in_hand = shared.jobs_in_hand();
        let given_back = async {
            let mut connection = shared.desk.connection().await?;
            let giving_back = store::give_back(&mut connection, shared.client.statements(), lease.id, &in_hand);
            let given_back = shared.desk.answer(giving_back).await;
            connection.settle(given_back)
        };
        match given_back.await {
            Ok(0) => {}
            Ok(jobs) => tracing::warn!(jobs, "gave back jobs of a fetch whose answer was lost"),
            Err(error) => {
                tracing::debug!(%error, "could not look for lost jobs yet");
                return;
            }
        }
        if is_last {
            self.until = None;
        }
    }
}

/// Decides how long to sleep, and whether inserts should notify.
struct Sleeper<'a> {
    shared: &'a Shared,
    /// The lease of which the database knows that inserts should notify it.
    idle_as: Option<Uuid>,
    full_fetches: u32,
    next_poll: Duration,
}

impl<'a> Sleeper<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self { shared, idle_as: None, full_fetches: 0, next_poll: FIRST_POLL }
    }

    async fn found(&mut self, is_full: bool) {
        self.next_poll = FIRST_POLL;
        self.full_fetches = if is_full { self.full_fetches + 1 } else { 0 };
        if self.idle_as.is_some() && self.full_fetches >= BUSY_AFTER {
            self.tell(false).await;
        }
    }

    async fn sleep(&mut self, is_held_back: bool) {
        self.full_fetches = 0;
        let shared = self.shared;
        // A new lease is a new row, which knows nothing of the old one's sleep.
        if shared.is_listening && self.idle_as != Some(shared.leases.current().id) && self.tell(true).await {
            // Register interest before looking again: what was inserted before is found by the
            // look, what is inserted after notifies.
            return;
        }
        let longest = if is_held_back { shared.poll_interval.min(HELD_BACK_POLL) } else { shared.poll_interval };
        let poll = self.next_poll.min(longest);
        self.next_poll = (self.next_poll * 2).min(longest);
        tokio::select! {
            () = shared.stopping.cancelled() => {}
            () = shared.wake.notified() => self.next_poll = FIRST_POLL,
            () = shared.freed.notified() => {}
            () = stale(shared) => {}
            () = tokio::time::sleep(poll) => {}
        }
    }

    /// A failure here costs wake-ups, or a NOTIFY too many, until the next time; never a job.
    async fn tell(&mut self, is_idle: bool) -> bool {
        let id = self.shared.leases.current().id;
        let Shared { client, desk, .. } = self.shared;
        let told = async {
            let mut connection = desk.connection().await?;
            let told = desk.answer(store::set_runner_idle(&mut connection, client.statements(), id, is_idle)).await;
            connection.settle(told)
        };
        let told = told.await;
        if let Err(error) = &told {
            tracing::debug!(%error, "could not tell whether the runner is idle");
        }
        self.idle_as = (is_idle && told.is_ok()).then_some(id);
        told.is_ok()
    }
}
