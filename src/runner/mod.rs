//! The runner: fetches jobs, works them, and records how they ended.
//!
//! ```text
//! notify ─▶ producer ──fetch──▶ executor (a task for what waits) ──result──▶ completer ──batch──▶ database
//!              ▲  free slots ◀──────┘   (slots: and what is fetched ahead)
//!
//! producer: look, one fetch; scan, where it begins; sleeper, when there is none; doubt, when one failed
//! progress: stores what running jobs report
//! heartbeat: extends the lease, listens, and stops what was taken away
//! maintenance: promotes, rescues, prunes
//! ```
//!
//! Invariants:
//! - A job is worked only under a live lease. Every result carries the lease's id and the run's number,
//!   and the database drops it when the job is no longer that run's.
//! - A result that reached the completer is sent until the database took it, or the lease is lost, or a stop runs out of
//!   time.
//! - A result that the database refuses holds up no other; while too many are not recorded, nothing is fetched.
//! - Everything that was started is awaited at the stop.
//! - What the database says runs here is in hand: after a fetch that failed, what is not is given back.
//!
//! Failures: while the database is away, fetches and results are tried again with a growing wait;
//! a lease that could not be extended in time counts as lost, its jobs are stopped, and the runner
//! goes on under a new lease.

mod around;
mod builder;
mod completed_in;
mod completer;
mod control;
mod desk;
mod doubt;
#[cfg(feature = "testing")]
mod drain;
mod executor;
mod flow;
mod handle;
mod heartbeat;
mod keeping;
mod lease;
mod look;
mod pace;
mod panics;
mod pooler;
mod producer;
mod progress;
mod recording;
mod refusal;
mod scan;
mod shutdown;
mod sifting;
mod sleeper;
mod slots;
mod span;
mod track;
mod upkeep;
mod verdict;
mod weight;
mod work;

pub use self::builder::Runner;
#[cfg(feature = "testing")]
pub(crate) use self::drain::{Attempted, Drainer};
pub use self::handle::RunnerHandle;
pub use self::shutdown::shutdown_signal;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use self::completer::Ended;
use self::control::{Control, Held};
use self::desk::Desk;
use self::keeping::Keeping;
use self::lease::Leases;
use self::slots::QueueSlots;
use self::track::Tracks;
use crate::client::Client;
use crate::ident::{JobId, QueueName};
use crate::metrics::RunnerMeter;
use crate::retry::RetryPolicy;
use crate::worker::{Registry, Reports, States, Stop, StopReason};

/// With so many results that are not recorded a runner fetches no more: ten batches of the completer's, which are gone in
/// a moment as long as the database takes them.
const MOST_UNRECORDED: usize = 10 * completer::BATCH;

/// What the parts of one runner share.
struct Shared {
    client: Client,
    desk: Desk,
    leases: Leases,
    queues: Vec<QueueSlots>,
    keeping: Keeping,
    /// The jobs that were fetched and whose results are not recorded yet, and how to stop them.
    in_hand: Mutex<HashMap<JobId, InHand>>,
    control: Control,
    /// How far jobs say they are, where that is not stored yet.
    reports: Arc<Reports>,
    workers: Registry,
    states: Arc<States>,
    /// The kinds that have a worker here. Others are left to other runners.
    kinds: Vec<String>,
    tracks: Tracks,
    meter: RunnerMeter,
    retry_policy: RetryPolicy,
    timeout: Option<Duration>,
    stop_grace: Duration,
    poll_interval: Duration,
    is_listening: bool,
    /// Wakes the producer: a notification came.
    wake: Notify,
    /// Wakes the producer: a slot is free again.
    freed: Notify,
    /// Stop fetching.
    stopping: CancellationToken,
    /// No more results will come.
    drained: CancellationToken,
    ended: mpsc::UnboundedSender<Ended>,
    /// Whether the next result wakes the completer.
    is_completer_waiting: AtomicBool,
    /// Whether the producer waits for results to be recorded.
    is_held_up: AtomicBool,
    /// Results that wait for somebody's lock, or are refused.
    aside: TaskTracker,
    /// Whose turn it is of these.
    aside_turn: Semaphore,
    attempts: TaskTracker,
}

/// The attempt at a job in hand.
struct InHand {
    /// The lease under which it was fetched.
    worker: Uuid,
    run: u32,
    stop: Arc<Stop>,
}

impl Shared {
    fn queue(&self, name: &QueueName) -> Option<&QueueSlots> {
        self.queues.iter().find(|queue| queue.name == *name)
    }

    /// Takes fetched jobs in hand, before any of them is started.
    fn take_in_hand(&self, worker: Uuid, jobs: impl Iterator<Item = (JobId, u32, Arc<Stop>)>) {
        let mut in_hand = self.in_hand();
        for (id, run, stop) in jobs {
            let fetched = InHand { worker, run, stop };
            match in_hand.entry(id) {
                Entry::Vacant(place) => drop(place.insert(fetched)),
                // The job was taken away and set back before this runner was told. Where the earlier
                // attempt has ended, nobody hears this.
                Entry::Occupied(mut held) => {
                    let is_earlier = held.get().worker == worker && held.get().run > run;
                    let earlier = if is_earlier { fetched } else { held.insert(fetched) };
                    earlier.stop.request(StopReason::Cancelled);
                }
            }
        }
    }

    fn jobs_in_hand(&self) -> Vec<Uuid> {
        self.in_hand().keys().map(|id| id.as_uuid()).collect()
    }

    /// The attempts in hand that were fetched under a lease.
    fn held_under(&self, lease: Uuid) -> Vec<Held> {
        let in_hand = self.in_hand();
        let of_lease = in_hand.iter().filter(|(_, held)| held.worker == lease);
        let held =
            |(id, held): (&JobId, &InHand)| Held { id: *id, run: held.run, stop: Arc::clone(&held.stop) };
        of_lease.map(held).collect()
    }

    /// Asks every job in hand to stop.
    fn stop_all(&self, reason: StopReason) {
        for held in self.in_hand().values() {
            held.stop.request(reason);
        }
    }

    /// What is recorded, or cannot count any more, is no longer in the runner's hands.
    fn let_go(&self, batch: &[Ended]) {
        let mut in_hand = self.in_hand();
        for ended in batch {
            if let Entry::Occupied(held) = in_hand.entry(ended.result.id)
                // The same job may be here for its next attempt already.
                && Arc::ptr_eq(&held.get().stop, &ended.stop)
            {
                held.remove();
            }
        }
        drop(in_hand);
        if self.is_held_up.swap(false, Ordering::AcqRel) {
            self.freed.notify_one();
        }
    }

    /// Whether so many results are not recorded that no more jobs are to be fetched. The producer hears when some are.
    fn is_behind(&self) -> bool {
        // Before the look, so that what is recorded since then is heard.
        self.is_held_up.store(true, Ordering::Release);
        let in_hand = self.in_hand().len();
        let here: usize = self.queues.iter().map(QueueSlots::here).sum();
        let is_behind = in_hand.saturating_sub(here) >= MOST_UNRECORDED;
        if !is_behind {
            self.is_held_up.store(false, Ordering::Release);
        }
        is_behind
    }

    fn in_hand(&self) -> MutexGuard<'_, HashMap<JobId, InHand>> {
        // Nothing panics while it holds the lock.
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait that doubles with each failure in a row.
struct GrowingWait {
    next: Duration,
}

impl GrowingWait {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(5);

    const fn new() -> Self {
        Self { next: Self::FIRST }
    }

    fn reset(&mut self) {
        self.next = Self::FIRST;
    }

    fn grow(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(Self::LONGEST);
        wait
    }
}
