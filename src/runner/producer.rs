//! The producer: keeps the free slots filled.
//!
//! Sleeping without missing a job: the runner first tells the database that it is idle, so that
//! inserts notify, and then looks once more. An insert that was under way meanwhile may commit
//! later still, so the first polls after falling asleep come quickly, and then ever more rarely. A
//! runner that stays busy says so, and no insert pays for a NOTIFY.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::completer::Ended;
use super::lease::Lease;
use super::scan::Scan;
use super::slots::{self, QueueSlots};
use super::{GrowingWait, Shared, executor};
use crate::error::Result;
use crate::metrics::{self, Timer};
use crate::store::{self, Fetched, FinishResult, Slots, Unreadable, Verdict};
use crate::worker::Stop;

/// The wait before the first poll of a runner that found nothing.
const FIRST_POLL: Duration = Duration::from_millis(10);

/// The longest wait where a queue is at its limit: nobody tells of a place that somebody else's job
/// frees.
const HELD_BACK_POLL: Duration = Duration::from_secs(1);

/// So many full fetches in a row, or crowds, make a runner busy.
const BUSY_AFTER: u32 = 3;

/// Jobs that come this many at a time, fetch after fetch, are worth waiting for others.
const CROWD: usize = 8;

/// How long a busy runner waits for others where they come in crowds that it could take all at once.
const GATHERING: Duration = Duration::from_millis(2);

/// How many fetches are under way at once, where one after another comes back full: the database takes
/// the next jobs while the runner reads the last.
const HANDS: usize = 2;

pub(super) async fn produce(shared: Arc<Shared>) {
    let mut sleeper = Sleeper::new(&shared);
    let mut failure_wait = GrowingWait::new();
    let mut doubt = Doubt::default();
    let scan = Arc::new(Mutex::new(Scan::new(Instant::now())));
    let mut looks = JoinSet::new();
    // The end of the look that began last. Before the first there was none.
    let mut latest = oneshot::channel().1;
    let mut is_full = false;
    while !shared.stopping.is_cancelled() {
        let lease = shared.leases.current();
        start_left_over(&shared);
        give_back_stale(&shared);
        tell_load(&shared);
        let hands = if is_full && doubt.until.is_none() { HANDS } else { 1 };
        while looks.len() < hands && !lease.lost.is_cancelled() {
            let Some(wanted) = Wanted::now(&shared) else { break };
            if looks.is_empty() {
                doubt.resolve(&shared, &lease).await;
            }
            let (over, turn) = oneshot::channel();
            let turn = Turn { after: std::mem::replace(&mut latest, turn), _over: over };
            looks.spawn(look(Arc::clone(&shared), Arc::clone(&lease), wanted, Arc::clone(&scan), turn));
        }
        let looked = tokio::select! {
            () = shared.stopping.cancelled() => break,
            () = shared.freed.notified(), if looks.len() < hands => continue,
            () = stale(&shared) => continue,
            Some(looked) = looks.join_next() => looked,
        };
        // A look that panicked failed as others do.
        match looked.unwrap_or_else(|panic| Err(sqlx::Error::Io(io::Error::other(panic)).into())) {
            Ok(Looked { fetched: 0, is_held_back, .. }) => {
                is_full = false;
                failure_wait.reset();
                if looks.is_empty() {
                    sleeper.sleep(is_held_back).await;
                }
            }
            Ok(looked) => {
                is_full = looked.is_full;
                failure_wait.reset();
                sleeper.found(&looked).await;
            }
            Err(error) => {
                is_full = false;
                tracing::warn!(%error, "fetch failed, trying again");
                // From when the last of them may have failed.
                while looks.join_next().await.is_some() {}
                doubt.begin(shared.leases.term);
                tokio::select! {
                    () = shared.stopping.cancelled() => break,
                    () = tokio::time::sleep(failure_wait.grow()) => {}
                }
            }
        }
    }
    while looks.join_next().await.is_some() {}
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

/// What a look is for. While it lives, the queues count on it.
struct Wanted {
    shared: Arc<Shared>,
    slots: Vec<Slots>,
}

impl Wanted {
    fn now(shared: &Arc<Shared>) -> Option<Self> {
        let slots = shared.queues.iter().map(|queue| Slots { queue: queue.name.clone(), free: queue.want() });
        let slots: Vec<_> = slots.filter(|slots| slots.free > 0).collect();
        (!slots.is_empty()).then(|| Self { shared: Arc::clone(shared), slots })
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
    for slots::Fetched { lease, attempt, track, .. } in jobs {
        let result = FinishResult::new(attempt.row.id, attempt.row.attempt, Verdict::GiveBack);
        let stop = Arc::clone(&attempt.stop);
        let _ = shared.ended.send(Ended { lease, stop, track, result, is_deleted: false, was_completed_in: false });
    }
}

/// What came of a look.
struct Looked {
    fetched: usize,
    /// Whether there is probably more.
    is_full: bool,
    /// Whether there may be jobs that it was not allowed to take.
    is_held_back: bool,
}

/// The order of looks: what a look brought is dealt out after what the one before it did.
struct Turn {
    /// Resolves when the look before is over, however it ended.
    after: oneshot::Receiver<()>,
    /// Tells the next one, when dropped.
    _over: oneshot::Sender<()>,
}

/// Fetches once and hands the jobs to the executor.
async fn look(
    shared: Arc<Shared>,
    lease: Arc<Lease>,
    wanted: Wanted,
    scan: Arc<Mutex<Scan>>,
    turn: Turn,
) -> Result<Looked> {
    let timer = Timer::start();
    let mut connection = shared.desk.connection().await?;
    let (depth, places) = lock(&scan).begin(Instant::now());
    let heard_before = shared.control.heard();
    let statements = shared.client.statements();
    let fetching = store::fetch(&mut connection, statements, lease.id, &wanted.slots, &shared.kinds, &places);
    let fetched = shared.desk.answer(fetching).await;
    let fetched = connection.settle(fetched)?;
    let _ = turn.after.await;
    // From here to the end nothing waits, and nothing fails: what is in hand is started, or lies in its queue.
    lock(&scan).remember(depth, &wanted.slots, &fetched, Instant::now());
    let is_held_back = !fetched.held_back.is_empty();
    for Slots { queue, .. } in &wanted.slots {
        if let Some(queue) = shared.queue(queue) {
            queue.limit(fetched.limited.contains(&queue.name));
        }
    }
    let Fetched { jobs, unreadable, .. } = fetched;
    let fetched = jobs.len() + unreadable.len();
    shared.meter.fetched(timer, fetched);
    let now = Instant::now();
    let jobs: Vec<_> = jobs.into_iter().map(|row| executor::prepare(&shared, &lease, row, now)).collect();
    let unreadable: Vec<_> = unreadable.into_iter().map(|job| (job, Arc::<Stop>::default())).collect();
    let readable = jobs.iter().map(|job| (job.attempt.row.id, job.attempt.row.attempt, Arc::clone(&job.attempt.stop)));
    let failed = unreadable.iter().map(|(job, stop)| (job.id, job.attempt, Arc::clone(stop)));
    shared.take_in_hand(lease.id, readable.chain(failed));
    if fetched > 0 && shared.control.heard() != heard_before {
        shared.control.hear();
    }
    for (Unreadable { id, kind, queue, attempt, problem }, stop) in unreadable {
        tracing::error!(job.id = %id, problem, "a job cannot be worked");
        let verdict = Verdict::Retry { delay: shared.retry_policy.wait_after(attempt), error: problem };
        let result = FinishResult::new(id, attempt, verdict);
        let (lease, track) = (Arc::clone(&lease), shared.tracks.of(&kind, &queue));
        let _ = shared.ended.send(Ended { lease, stop, track, result, is_deleted: false, was_completed_in: false });
    }
    for job in jobs {
        let queue = shared.queue(&job.attempt.row.queue);
        if let Some(job) = queue.and_then(|queue| queue.admit(job)) {
            start(&shared, job);
        }
    }
    let wanted = wanted.slots.iter().fold(0, |sum: usize, slot| sum.saturating_add(slot.free));
    Ok(Looked { fetched, is_full: fetched == wanted, is_held_back })
}

fn lock(scan: &Mutex<Scan>) -> MutexGuard<'_, Scan> {
    // Nothing panics while it holds the lock.
    scan.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// How many fetches in a row brought many jobs.
    crowds: u32,
    next_poll: Duration,
}

impl<'a> Sleeper<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self { shared, idle_as: None, crowds: 0, next_poll: FIRST_POLL }
    }

    /// Jobs came. A busy runner that could take more than there were waits a moment: a fetch, and a
    /// notification, for every few of them would cost everybody more than the jobs do.
    async fn found(&mut self, looked: &Looked) {
        self.next_poll = FIRST_POLL;
        self.crowds = if looked.is_full || looked.fetched >= CROWD { self.crowds + 1 } else { 0 };
        if self.crowds < BUSY_AFTER {
            return;
        }
        if self.idle_as.is_some() {
            self.tell(false).await;
        }
        if !looked.is_full {
            tokio::select! {
                () = self.shared.stopping.cancelled() => {}
                () = tokio::time::sleep(GATHERING) => {}
            }
        }
    }

    async fn sleep(&mut self, is_held_back: bool) {
        self.crowds = 0;
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
