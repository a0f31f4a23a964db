//! The runs in hand: jobs that were fetched and whose results are not recorded yet.
//!
//! A cancellation, a rescue or a deletion of a running job notifies its runner, which then asks the
//! database which of its runs are still its own, and stops the others. It asks at each heartbeat as well, so that a
//! notification that was lost, or never sent, costs a quarter of a lease and nothing else.
//!
//! Invariants:
//! - A run is stopped only if it was in hand before the question was asked: what a fetch brings meanwhile was not asked
//!   about.
//! - A job that is taken away between its fetch and the fetch's answer is not in hand when the notification comes. So a
//!   fetch during which one came asks once more.
//! - A run that completed its job itself, in a transaction of its own, is not stopped while it cleans up: the answer counts
//!   it as still in hand. Where completed jobs are not kept, the row is gone, and the run says that it may have deleted it.
//!
//! Failures: a question that fails is asked again at the next heartbeat at the latest.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use uuid::Uuid;

use super::recording::result::Ended;
use crate::error::Result;
use crate::store::Store;
use crate::words::ident::{JobId, QueueName};
use crate::worker::{Stop, StopReason};

/// The most results that are not recorded while the runner still fetches: ten full batches of the completer, which are
/// recorded in a moment as long as the database takes them.
const MAX_UNRECORDED: usize = 20_000;

/// The runs in hand, and how to stop them.
#[derive(Default)]
pub(super) struct Runs {
    in_hand: Mutex<HashMap<JobId, Run>>,
    /// Whether the producer waits for results to be recorded.
    is_held_up: AtomicBool,
    /// How often runs were taken away, or may have been.
    taken_away: AtomicU64,
    /// Wakes the heartbeat, which asks.
    pub(super) ask: Notify,
}

/// A run in hand.
pub(super) struct Run {
    /// The lease under which the job was fetched.
    pub(super) worker: Uuid,
    pub(super) number: u32,
    pub(super) stop: Arc<Stop>,
    /// Its queue and group, in which its end frees a place.
    pub(super) group: Option<(QueueName, String)>,
}

impl Runs {
    /// Takes fetched jobs in hand, before any of them is started.
    pub(super) fn take(&self, jobs: impl Iterator<Item = (JobId, Run)>) {
        let mut in_hand = self.in_hand();
        for (id, fetched) in jobs {
            match in_hand.entry(id) {
                Entry::Vacant(place) => drop(place.insert(fetched)),
                // The job was taken away and set back before this runner heard of it.
                Entry::Occupied(mut held) => {
                    let is_earlier = held.get().worker == fetched.worker && held.get().number > fetched.number;
                    let earlier = if is_earlier { fetched } else { held.insert(fetched) };
                    earlier.stop.request(StopReason::Cancelled);
                }
            }
        }
    }

    pub(super) fn ids(&self) -> Vec<Uuid> {
        self.in_hand().keys().map(|id| id.as_uuid()).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.in_hand().len()
    }

    /// From now on the producer is woken when a run is let go.
    pub(super) fn wake_at_end(&self) {
        self.is_held_up.store(true, Ordering::Release);
    }

    /// Asks every run to stop.
    pub(super) fn stop_all(&self, reason: StopReason) {
        for run in self.in_hand().values() {
            run.stop.request(reason);
        }
    }

    /// Lets go of runs whose results are recorded, or cannot count any more. Answers whether the producer waits for that,
    /// and in which groups places were freed.
    pub(super) fn let_go(&self, batch: &[Ended]) -> (bool, Vec<(QueueName, String)>) {
        let mut in_hand = self.in_hand();
        let mut freed = Vec::new();
        for ended in batch {
            if let Entry::Occupied(held) = in_hand.entry(ended.result.id)
                // The job may be in hand for its next run already.
                && Arc::ptr_eq(&held.get().stop, &ended.stop)
            {
                freed.extend(held.remove().group);
            }
        }
        drop(in_hand);
        (self.is_held_up.swap(false, Ordering::AcqRel), freed)
    }

    /// Whether too many results are not recorded for another fetch. `not_ended` of the runs in hand have no result yet.
    /// The producer is woken when results are recorded.
    pub(super) fn are_too_many(&self, not_ended: usize) -> bool {
        // Set before the count, so that results that are recorded after it wake the producer.
        self.is_held_up.store(true, Ordering::Release);
        let are_too_many = self.count().saturating_sub(not_ended) >= MAX_UNRECORDED;
        if !are_too_many {
            self.is_held_up.store(false, Ordering::Release);
        }
        are_too_many
    }

    /// Notes that runs were taken away, or may have been.
    pub(super) fn note_taken_away(&self) {
        self.taken_away.fetch_add(1, Ordering::AcqRel);
        self.ask.notify_one();
    }

    /// How often that was noted so far.
    pub(super) fn taken_away(&self) -> u64 {
        self.taken_away.load(Ordering::Acquire)
    }

    /// Asks which runs under a lease are still its own, and stops the others.
    pub(super) async fn stop_taken_away(&self, store: Store<'_>, lease: Uuid) -> Result<()> {
        let mut held: Vec<_> = {
            let in_hand = self.in_hand();
            let of_lease = in_hand.iter().filter(|(_, run)| run.worker == lease);
            of_lease.map(|(id, run)| (*id, run.number, Arc::clone(&run.stop))).collect()
        };
        if held.is_empty() {
            return Ok(());
        }
        held.sort_unstable_by_key(|(id, ..)| *id);
        let runs: Vec<_> = held.iter().map(|(id, number, _)| (*id, *number)).collect();
        let answers = store.still_held(lease, &runs).await?;
        for (id, _, stop) in held {
            let is_held = answers.get(&id).copied().unwrap_or_else(|| stop.may_have_deleted());
            if !is_held {
                stop.request(StopReason::Cancelled);
            }
        }
        Ok(())
    }

    fn in_hand(&self) -> MutexGuard<'_, HashMap<JobId, Run>> {
        // Nothing panics while it holds the lock.
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
