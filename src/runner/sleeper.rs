//! When the producer sleeps, and whether inserts wake it.
//!
//! Sleeping without missing a job: the runner first tells the database that it is idle, so that
//! inserts notify, and then looks once more. An insert that was under way meanwhile may commit
//! later still, so the first polls after falling asleep come quickly, and then ever more rarely. A
//! runner among jobs that [`flow`](super::flow) says that it is not idle, and no insert pays for a NOTIFY.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::flow::{Flow, GATHERING};
use super::look::Looked;
use super::{Shared, slots};
use crate::store;

/// The wait before the first poll of a runner that found nothing.
const FIRST_POLL: Duration = Duration::from_millis(10);

/// The longest wait where a queue is at its limit: nobody tells of a place that somebody else's job
/// frees.
const HELD_BACK_POLL: Duration = Duration::from_secs(1);

/// Jobs that come this many at a time, fetch after fetch, are worth waiting for others.
const CROWD: usize = 8;

/// Decides how long to sleep, and whether inserts should notify.
pub(super) struct Sleeper<'a> {
    shared: &'a Shared,
    /// The lease of which the database knows that inserts should notify it.
    idle_as: Option<Uuid>,
    flow: Flow,
    next_poll: Duration,
}

impl<'a> Sleeper<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self { shared, idle_as: None, flow: Flow::new(Instant::now()), next_poll: FIRST_POLL }
    }

    /// Jobs came. A busy runner that could take more than there were waits a moment: a fetch, and a
    /// notification, for every few of them would cost everybody more than the jobs do.
    pub(super) async fn found(&mut self, looked: &Looked) {
        self.next_poll = FIRST_POLL;
        if self.flow.found(Instant::now(), looked.is_full || looked.fetched >= CROWD) {
            self.gather(if looked.is_full { Duration::ZERO } else { GATHERING }, looked.is_held_back).await;
        }
    }

    /// Sleeps until there may be something to fetch, or for so long at most.
    pub(super) async fn sleep(&mut self, is_held_back: bool, at_most: Duration) {
        if let Some(gathering) = self.flow.missed() {
            return self.gather(gathering, is_held_back).await;
        }
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
            () = shared.wake.notified() => {
                self.next_poll = FIRST_POLL;
                self.flow.woken(Instant::now());
            }
            () = shared.freed.notified() => {}
            () = slots::stale(&shared.queues) => {}
            () = tokio::time::sleep(poll.min(at_most)) => {}
        }
    }

    /// Waits for others, with nobody notified; or, where a queue is at its limit, for a place in it.
    async fn gather(&mut self, gathering: Duration, is_held_back: bool) {
        if self.idle_as.is_some() {
            self.tell(false).await;
        }
        if !gathering.is_zero() {
            tokio::select! {
                () = self.shared.stopping.cancelled() => {}
                () = self.shared.freed.notified(), if is_held_back => {}
                () = tokio::time::sleep(gathering) => {}
            }
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
        let told = tokio::select! {
            told = told => told,
            // A database that does not answer must not hold up a stop.
            () = self.shared.stopping.cancelled() => return false,
        };
        if let Err(error) = &told {
            tracing::debug!(%error, "could not tell whether the runner is idle");
        }
        self.idle_as = (is_idle && told.is_ok()).then_some(id);
        told.is_ok()
    }
}
