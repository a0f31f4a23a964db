//! The producer: keeps the free slots filled, one fetch at a time.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cursor::Cursor;
use super::executor;
use super::failures::Failures;
use super::fetch::{FetchResult, Wanted, fetch};
use super::polling::Polling;
use super::recovery::{GrowingWait, LostFetches};
use super::shared::Shared;
use super::slots;
use super::suspects::Plan;
use crate::metrics;

/// The wait after a fetch that failed and whose reason is out of the way.
const MENDED_WAIT: Duration = Duration::from_millis(20);

/// Fetches until the runner stops.
pub(super) async fn produce(shared: Arc<Shared>) {
    let stopping = &shared.signals.stopping;
    // At a stop a fetch under way is waited for, no longer than a lease.
    let mut overdue = pin!(async {
        stopping.cancelled().await;
        tokio::time::sleep(shared.leases.term).await;
    });
    let mut polling = Polling::new(&shared);
    let mut cursor = Cursor::new(Instant::now());
    let mut lost_fetches = LostFetches::default();
    let mut failures = Failures::new();
    let mut failure_wait = GrowingWait::new();
    while !stopping.is_cancelled() {
        let lease = shared.leases.current();
        // The task of a slot died, or slots became more.
        executor::fill_slots(&shared);
        give_back_what_waits_too_long(&shared);
        tell_load(&shared);
        let is_lost = lease.lost.is_cancelled();
        // Jobs of a fetch whose answer was lost come before new ones.
        if lost_fetches.is_due() && !is_lost {
            let given_back = tokio::select! {
                () = stopping.cancelled() => break,
                () = lease.lost.cancelled() => continue,
                given_back = lost_fetches.give_back(&shared, &lease) => given_back,
            };
            if let Err(error) = given_back {
                tracing::debug!(%error, "could not look for lost jobs yet");
                if lost_fetches.block_fetches() {
                    tokio::select! {
                        () = stopping.cancelled() => break,
                        () = tokio::time::sleep(failure_wait.grow()) => continue,
                    }
                }
            }
        }
        tokio::select! {
            () = stopping.cancelled() => break,
            () = async { if !is_lost { failures.tend(&shared, lease.id).await } } => {}
            never = give_back_in_time(&shared) => match never {},
        }
        let plan = shared.suspects.plan(Instant::now(), shared.runs.count_awaited());
        if matches!(plan, Plan::Hold { .. }) {
            give_back_waiting(&shared);
        }
        let wanted = if is_lost { Wanted::NOTHING } else { failures.wanted(&shared, plan) };
        if wanted.slots.is_empty() {
            tokio::select! {
                () = stopping.cancelled() => break,
                () = shared.signals.freed.notified() => {}
                () = slots::too_long(&shared.queues) => {}
                () = lost_fetches.due(), if !is_lost => {}
                () = held(plan) => {}
                () = tokio::time::sleep(failures.due_in()), if !is_lost => {}
            }
            continue;
        }
        let began = Instant::now();
        let found = tokio::select! {
            found = fetch(&shared, &lease, &wanted, &mut cursor) => found,
            never = give_back_in_time(&shared) => match never {},
            () = &mut overdue => {
                tracing::warn!("a fetch was not answered while the runner stops: its jobs are rescued");
                return give_back_waiting(&shared);
            }
        };
        if let Ok(found) = &found {
            failures.note_success(&wanted, found);
        }
        match found {
            Ok(FetchResult { jobs: 0, is_held_back, next_in, .. }) => {
                failure_wait.reset();
                if let Some(share) = &shared.share {
                    share.sate();
                }
                let at_most = lost_fetches.due_in().min(failures.due_in()).min(next_in.unwrap_or(Duration::MAX));
                polling.sleep(is_held_back, at_most).await;
            }
            Ok(FetchResult { is_full, is_held_back, .. }) => {
                failure_wait.reset();
                if !is_full {
                    // The jobs come first on this thread: the next fetch will probably find nothing.
                    tokio::task::yield_now().await;
                }
                polling.found(is_full, is_held_back).await;
            }
            Err(error) => {
                tracing::warn!(%error, "fetch failed, trying again");
                lost_fetches.note_failure(shared.leases.term);
                if plan == Plan::Alone {
                    // A suspect that cannot be fetched holds up no other job.
                    shared.suspects.found_none(Instant::now());
                }
                // The job at fault is looked for from the heads of the queues.
                cursor = Cursor::new(Instant::now());
                let is_mended = tokio::select! {
                    () = stopping.cancelled() => break,
                    is_mended = failures.mend(&shared, lease.id, &wanted, &error, began.elapsed()) => is_mended,
                    never = give_back_in_time(&shared) => match never {},
                };
                let wait = if is_mended { MENDED_WAIT } else { failure_wait.grow() };
                tokio::select! {
                    () = stopping.cancelled() => break,
                    () = tokio::time::sleep(wait) => {}
                }
            }
        }
    }
    // The jobs of fetches whose answers were lost would be rescued later, as suspects. When the lease is lost
    // they are another runner's.
    let lease = shared.leases.current();
    tokio::select! {
        given_back = lost_fetches.give_back(&shared, &lease) => if let Err(error) = given_back {
            tracing::warn!(%error, "could not look for jobs of a fetch whose answer was lost: if there are any, they are rescued");
        },
        () = lease.lost.cancelled() => {}
        () = &mut overdue => {
            tracing::warn!("no answer about jobs of a fetch whose answer was lost: if there are any, they are rescued");
        }
    }
    give_back_waiting(&shared);
}

/// Resolves when a plan holds the runner up no longer.
async fn held(plan: Plan) {
    match plan {
        Plan::Hold { until } => tokio::time::sleep_until(until.into()).await,
        Plan::Open { .. } | Plan::Alone => std::future::pending().await,
    }
}

/// Gives back every job that waits for a slot.
fn give_back_waiting(shared: &Shared) {
    for queue in &shared.queues {
        shared.give_back(queue.clear());
    }
}

/// Gives back jobs that wait too long, for ever: also while a fetch gets no answer.
async fn give_back_in_time(shared: &Shared) -> Infallible {
    loop {
        slots::too_long(&shared.queues).await;
        give_back_what_waits_too_long(shared);
    }
}

/// Tells metrics the load of each queue.
fn tell_load(shared: &Shared) {
    if !metrics::IS_COUNTING {
        return;
    }
    for (place, queue) in shared.queues.iter().enumerate() {
        shared.telemetry.runner.load(place, queue.load());
    }
}

/// Gives back jobs that were fetched ahead of jobs that turned out slow.
fn give_back_what_waits_too_long(shared: &Shared) {
    let now = Instant::now();
    for queue in &shared.queues {
        if queue.waits_until().is_some_and(|deadline| deadline <= now) {
            shared.give_back(queue.clear());
        }
    }
}
