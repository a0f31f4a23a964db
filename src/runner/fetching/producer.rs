//! The producer: keeps the free slots filled, one fetch at a time.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cursor::Cursor;
use super::failures::Failures;
use super::fetch::{FetchResult, Wanted, fetch};
use super::lost_fetches::LostFetches;
use super::polling::Polling;
use super::slots::QueueSlots;
use crate::client::connections::growing_wait::GrowingWait;
use crate::error::Error;
use crate::runner::life::lease::RunnerLease;
use crate::runner::shared::Shared;
use crate::runner::working::executor;

/// The wait after a fetch that failed and whose reason is out of the way.
const MENDED_WAIT: Duration = Duration::from_millis(20);

/// Fetches until the runner stops.
pub(in crate::runner) async fn produce(shared: Arc<Shared>) {
    let overdue = async {
        shared.signals.stopping.cancelled().await;
        tokio::time::sleep(shared.options.lease).await;
    };
    let mut producer = Producer::new(&shared);
    tokio::select! {
        () = producer.run() => {}
        // At a stop a fetch under way is waited for, no longer than a lease.
        () = overdue => {
            tracing::warn!("no answer about a fetch while the runner stops: if it took jobs, they are rescued");
        }
        never = give_back_in_time(&shared) => match never {},
    }
    give_back_waiting(&shared);
}

/// What the fetches of a runner remember.
struct Producer<'a> {
    shared: &'a Arc<Shared>,
    polling: Polling<'a>,
    cursor: Cursor,
    lost_fetches: LostFetches,
    failures: Failures,
    failure_wait: GrowingWait,
}

impl<'a> Producer<'a> {
    fn new(shared: &'a Arc<Shared>) -> Self {
        Self {
            shared,
            polling: Polling::new(shared),
            cursor: Cursor::new(Instant::now()),
            lost_fetches: LostFetches::default(),
            failures: Failures::new(),
            failure_wait: GrowingWait::new(),
        }
    }

    async fn run(&mut self) {
        let shared = self.shared;
        while !shared.signals.stopping.is_cancelled() {
            // The task of a slot died, or slots became more.
            executor::fill_slots(shared);
            shared.queues.iter().for_each(QueueSlots::tell_load);
            let lease = shared.leases.current();
            // Jobs of a fetch whose answer was lost come before new ones.
            if self.lost_fetches.is_due() && !lease.lost.is_cancelled() && !self.find_lost(&lease).await {
                continue;
            }
            let wanted = if lease.lost.is_cancelled() { Wanted::NOTHING } else { self.failures.wanted(shared) };
            if wanted.slots.is_empty() {
                self.wait(&lease).await;
                continue;
            }
            let began = Instant::now();
            match fetch(shared, &lease, &wanted, self.failures.memory(lease.id), &mut self.cursor).await {
                Ok(found) => self.found(&wanted, &found).await,
                Err(error) => self.failed(&lease, &wanted, &error, began).await,
            }
        }
        // The jobs of fetches whose answers were lost would be rescued later, as suspects. When the lease is lost
        // they are another runner's.
        let lease = shared.leases.current();
        tokio::select! {
            given_back = self.lost_fetches.give_back(shared, &lease) => if let Err(error) = given_back {
                tracing::warn!(%error, "could not look for jobs of a fetch whose answer was lost: if there are any, they are rescued");
            },
            () = lease.lost.cancelled() => {}
        }
    }

    /// Gives back jobs of fetches whose answers were lost. Answers whether to fetch.
    async fn find_lost(&mut self, lease: &RunnerLease) -> bool {
        let stopping = &self.shared.signals.stopping;
        let given_back = tokio::select! {
            () = stopping.cancelled() => return false,
            () = lease.lost.cancelled() => return false,
            given_back = self.lost_fetches.give_back(self.shared, lease) => given_back,
        };
        let Err(error) = given_back else { return true };
        tracing::debug!(%error, "could not look for lost jobs yet");
        let may_fetch = !self.lost_fetches.block_fetches();
        if !may_fetch {
            let wait = self.failure_wait.grow();
            self.pause(wait).await;
        }
        may_fetch
    }

    /// Waits until there may be something to fetch, or to look for.
    async fn wait(&self, lease: &RunnerLease) {
        let due_in = self.lost_fetches.due_in().min(self.failures.due_in());
        tokio::select! {
            () = self.shared.signals.stopping.cancelled() => {}
            () = self.shared.signals.freed.notified() => {}
            () = tokio::time::sleep(due_in), if !lease.lost.is_cancelled() => {}
        }
    }

    /// Sleeps as long as a fetch tells.
    async fn found(&mut self, wanted: &Wanted, found: &FetchResult) {
        self.failure_wait.reset();
        self.failures.note_success(wanted, found);
        if found.plan.as_ref().is_some_and(|plan| plan.is_draining) {
            give_back_waiting(self.shared);
        }
        if found.jobs > 0 {
            if !found.is_full {
                // The jobs come first on this thread: the next fetch will probably find nothing.
                tokio::task::yield_now().await;
            }
            return self.polling.found(found.is_full, found.is_held_back).await;
        }
        if let Some(share) = &self.shared.share {
            share.sate();
        }
        let due_in = self.lost_fetches.due_in().min(self.failures.due_in());
        self.polling.sleep(found.is_held_back, due_in.min(found.next_in.unwrap_or(Duration::MAX))).await;
    }

    /// Looks for the reason why a fetch failed, and waits.
    async fn failed(&mut self, lease: &RunnerLease, wanted: &Wanted, error: &Error, began: Instant) {
        tracing::warn!(%error, "fetch failed, trying again");
        let Self { shared, .. } = self;
        let stopping = &shared.signals.stopping;
        self.lost_fetches.note_failure(shared.options.lease);
        // The job at fault is looked for from the heads of the queues.
        self.cursor = Cursor::new(Instant::now());
        let is_mended = tokio::select! {
            () = stopping.cancelled() => return,
            is_mended = self.failures.mend(shared, lease.id, wanted, error, began.elapsed()) => is_mended,
        };
        let wait = if is_mended { MENDED_WAIT } else { self.failure_wait.grow() };
        self.pause(wait).await;
    }

    /// Waits, no longer than until the stop.
    async fn pause(&self, wait: Duration) {
        tokio::select! {
            () = self.shared.signals.stopping.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Gives back every job that waits for a slot.
fn give_back_waiting(shared: &Shared) {
    for queue in &shared.queues {
        shared.give_back(queue.clear());
    }
}

/// Gives back jobs that were fetched ahead of jobs that turned out slow, for ever: also while a fetch gets no answer.
async fn give_back_in_time(shared: &Shared) -> Infallible {
    loop {
        match shared.queues.iter().filter_map(QueueSlots::waits_until).min() {
            Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
            None => shared.signals.fetched_ahead.notified().await,
        }
        let now = Instant::now();
        for queue in &shared.queues {
            if queue.waits_until().is_some_and(|deadline| deadline <= now) {
                shared.give_back(queue.clear());
            }
        }
    }
}
