//! The producer: keeps the free slots filled.
//!
//! Sleeping without missing a job: the runner first tells the database that it is idle, so that
//! inserts notify, and then looks once more. An insert that was under way meanwhile may commit
//! later still, so the first polls after falling asleep come quickly, and then ever more rarely. A
//! runner that stays busy says so, and no insert pays for a NOTIFY.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use uuid::Uuid;

use super::lease::Lease;
use super::{GrowingWait, Shared, executor};
use crate::error::Result;
use crate::store::{self, Slots};

/// The wait before the first poll of a runner that found nothing.
const FIRST_POLL: Duration = Duration::from_millis(10);

/// So many full fetches in a row make a runner busy.
const BUSY_AFTER: u32 = 3;

pub(super) async fn produce(shared: Arc<Shared>) {
    let mut sleeper = Sleeper::new(&shared);
    let mut failure_wait = GrowingWait::new();
    while !shared.stopping.is_cancelled() {
        let lease = shared.leases.current();
        let slots = free_slots(&shared);
        if slots.is_empty() || lease.stop.is_cancelled() {
            tokio::select! {
                () = shared.stopping.cancelled() => return,
                () = shared.freed.notified() => {}
            }
            continue;
        }
        let wanted: usize = slots.iter().map(|slot| slot.free).sum();
        match fetch(&shared, &lease, &slots).await {
            Ok(0) => {
                failure_wait.reset();
                sleeper.sleep().await;
            }
            Ok(fetched) => {
                failure_wait.reset();
                sleeper.found(fetched == wanted).await;
            }
            Err(error) => {
                tracing::warn!(%error, "fetch failed, trying again");
                tokio::select! {
                    () = shared.stopping.cancelled() => return,
                    () = tokio::time::sleep(failure_wait.grow()) => {}
                }
            }
        }
    }
}

fn free_slots(shared: &Shared) -> Vec<Slots> {
    shared
        .queues
        .iter()
        .map(|queue| Slots { queue: queue.name.clone(), free: queue.free() })
        .filter(|slots| slots.free > 0)
        .collect()
}

/// Fetches once and hands the jobs to the executor. Answers how many it was.
async fn fetch(shared: &Arc<Shared>, lease: &Arc<Lease>, slots: &[Slots]) -> Result<usize> {
    let mut connection = shared.client.connection().await?;
    let jobs = store::fetch(&mut connection, shared.client.statements(), lease.id, slots, &shared.kinds).await?;
    drop(connection);
    let fetched = jobs.len();
    for row in jobs {
        if let Some(queue) = shared.queue(&row.queue) {
            queue.running.fetch_add(1, Ordering::AcqRel);
        }
        shared.attempts.spawn(executor::execute(Arc::clone(shared), Arc::clone(lease), row));
    }
    Ok(fetched)
}

/// Decides how long to sleep, and whether inserts should notify.
struct Sleeper<'a> {
    shared: &'a Shared,
    /// The lease for which the database knows that inserts should notify this runner.
    idle_lease: Option<Uuid>,
    full_fetches: u32,
    next_poll: Duration,
}

impl<'a> Sleeper<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self { shared, idle_lease: None, full_fetches: 0, next_poll: FIRST_POLL }
    }

    async fn found(&mut self, is_full: bool) {
        self.next_poll = FIRST_POLL;
        self.full_fetches = if is_full { self.full_fetches + 1 } else { 0 };
        if self.is_idle() && self.full_fetches >= BUSY_AFTER {
            self.tell(false).await;
        }
    }

    async fn sleep(&mut self) {
        self.full_fetches = 0;
        let shared = self.shared;
        if shared.is_listening && !self.is_idle() {
            // Register interest before looking again: what was inserted before is found by the
            // look, what is inserted after notifies.
            self.tell(true).await;
            return;
        }
        let poll = self.next_poll.min(shared.poll_interval);
        self.next_poll = (self.next_poll * 2).min(shared.poll_interval);
        tokio::select! {
            () = shared.stopping.cancelled() => {}
            () = shared.wake.notified() => self.next_poll = FIRST_POLL,
            () = shared.freed.notified() => {}
            () = tokio::time::sleep(poll) => {}
        }
    }

    fn is_idle(&self) -> bool {
        self.idle_lease == Some(self.shared.leases.current().id)
    }

    /// A failure here costs wake-ups, or a NOTIFY too many, until the next time; never a job.
    async fn tell(&mut self, is_idle: bool) {
        let lease = self.shared.leases.current().id;
        let told = async {
            let mut connection = self.shared.client.connection().await?;
            store::set_runner_idle(&mut connection, self.shared.client.statements(), lease, is_idle).await
        };
        if let Err(error) = told.await {
            tracing::debug!(%error, "could not tell whether the runner is idle");
        }
        self.idle_lease = is_idle.then_some(lease);
    }
}
