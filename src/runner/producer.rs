//! The producer: keeps the free slots filled.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinSet};

use super::completer::Ended;
use super::doubt::Doubt;
use super::look::{Looked, Wanted, look};
use super::scan::Scan;
use super::sleeper::Sleeper;
use super::slots;
use super::{GrowingWait, Shared, executor};
use crate::error::Result;
use crate::metrics;
use crate::store::{FinishResult, Verdict};

/// How many fetches may be under way at once: the database takes the next jobs while the runner reads the last.
const HANDS: usize = 2;

/// How long no turns are taken after one that did not come: too many wait, or one holds the others up.
const WITHOUT_TURNS: Duration = Duration::from_secs(10);

pub(super) async fn produce(shared: Arc<Shared>) {
    let mut sleeper = Sleeper::new(&shared);
    let mut failure_wait = GrowingWait::new();
    let mut doubt = Doubt::default();
    let scan = Arc::new(Mutex::new(Scan::new(Instant::now())));
    let mut looks = JoinSet::new();
    // Whether there is probably more.
    let mut is_full = true;
    // Whether the last look was at one queue only.
    let mut was_told = false;
    let mut turns_from = Instant::now();
    while !shared.stopping.is_cancelled() {
        let lease = shared.leases.current();
        // Somebody died, or slots became more.
        executor::call_all(&shared);
        give_back_stale(&shared);
        tell_load(&shared);
        let hands = if is_full && !doubt.is_in() && slots::are_many(&shared.queues) { HANDS } else { 1 };
        // What a fetch may have left behind comes before what another brings.
        if doubt.is_due() && looks.is_empty() && !lease.lost.is_cancelled() {
            let resolved = tokio::select! {
                () = shared.stopping.cancelled() => break,
                () = lease.lost.cancelled() => continue,
                resolved = doubt.resolve(&shared, &lease) => resolved,
            };
            if let Err(error) = resolved {
                tracing::debug!(%error, "could not look for lost jobs yet");
                if doubt.holds_back() {
                    tokio::select! {
                        () = shared.stopping.cancelled() => break,
                        () = tokio::time::sleep(failure_wait.grow()) => continue,
                    }
                }
            }
        }
        // Through a pooler who waits would keep a session of the server from others.
        let takes_turn = is_full && shared.desk.has_sessions() && turns_from <= Instant::now();
        while looks.len() < hands && !lease.lost.is_cancelled() {
            let Some(wanted) = Wanted::now(&shared, was_told, takes_turn) else { break };
            was_told = wanted.is_told();
            looks.spawn(look(Arc::clone(&shared), Arc::clone(&lease), wanted, Arc::clone(&scan)));
        }
        let looked = tokio::select! {
            () = shared.stopping.cancelled() => break,
            () = shared.freed.notified(), if looks.len() < hands => continue,
            () = slots::stale(&shared.queues) => continue,
            () = doubt.due(), if doubt.is_in() && looks.is_empty() && !lease.lost.is_cancelled() => continue,
            Some(looked) = looks.join_next() => looked,
        };
        let looked = ended(looked);
        if looked.as_ref().is_ok_and(|looked| looked.missed_turn) {
            turns_from = Instant::now() + WITHOUT_TURNS;
        }
        match looked {
            Ok(Looked { fetched: 0, is_told, is_held_back, .. }) => {
                is_full = false;
                failure_wait.reset();
                // One queue that is empty, or held back, says nothing of the others, nor what it is.
                if looks.is_empty() && !is_told {
                    sleeper.sleep(is_held_back, doubt.due_in()).await;
                }
            }
            Ok(looked) => {
                is_full = looked.is_full;
                failure_wait.reset();
                if !is_full {
                    // The jobs first, which wait for the thread that is here; the next look will probably find nothing.
                    tokio::task::yield_now().await;
                }
                sleeper.found(&looked).await;
            }
            Err(error) => {
                is_full = false;
                tracing::warn!(%error, "fetch failed, trying again");
                // Anew with each, so from when the last of them may have failed.
                doubt.begin(shared.leases.term);
                tokio::select! {
                    () = shared.stopping.cancelled() => break,
                    () = tokio::time::sleep(failure_wait.grow()) => {}
                }
            }
        }
    }
    settle(&shared, looks, doubt).await;
    for queue in &shared.queues {
        give_back(&shared, queue.clear());
    }
}

/// What a look came to. One that panicked failed as others do.
fn ended(looked: std::result::Result<Result<Looked>, JoinError>) -> Result<Looked> {
    looked.unwrap_or_else(|panic| Err(sqlx::Error::Io(io::Error::other(panic)).into()))
}

/// At a stop: waits for the fetches that are under way, and looks for lost jobs once, if there may be any. Nobody does
/// so later, and they would be rescued with an attempt used up. No longer than a lease, which is how long a fetch may
/// take; when the lease is lost the jobs are another's anyway.
async fn settle(shared: &Shared, mut looks: JoinSet<Result<Looked>>, mut doubt: Doubt) {
    let lease = shared.leases.current();
    let settling = async {
        while let Some(looked) = looks.join_next().await {
            if let Err(error) = ended(looked) {
                tracing::warn!(%error, "fetch failed while the runner stops");
                doubt.begin(shared.leases.term);
            }
        }
        doubt.resolve(shared, &lease).await
    };
    tokio::select! {
        settled = settling => if let Err(error) = settled {
            tracing::warn!(%error, "could not look for jobs of a fetch whose answer was lost: if there are any, they are rescued");
        },
        () = lease.lost.cancelled() => {}
        () = tokio::time::sleep(shared.leases.term) => tracing::warn!("a fetch was not answered while the runner stops"),
    }
    // None of them may put jobs where nobody looks any more.
    looks.shutdown().await;
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
        let result = FinishResult::of(&attempt.row, Verdict::GiveBack);
        let stop = Arc::clone(&attempt.stop);
        let _ = shared.ended.send(Ended { lease, stop, track, result, is_deleted: false, may_be_completed: false });
    }
}
