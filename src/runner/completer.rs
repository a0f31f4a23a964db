//! The completer: records results in batches. While one batch is on its way, the next gathers; a
//! lone result goes at once, but for one that comes after a crowd: it waits 2 ms for others. A result
//! whose row somebody has locked waits aside.

use std::collections::{BTreeMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use uuid::Uuid;

use super::lease::Lease;
use super::track::{self, Track};
use super::{GrowingWait, Shared};
use crate::error::{Error, Result};
use crate::metrics::Timer;
use crate::store::{self, Counted, FinishResult, Verdict};
use crate::worker::Stop;

/// The most results in one statement.
const BATCH: usize = 2_000;

/// Results that come this many at a time are worth waiting for others.
const CROWD: usize = 32;

/// Results that need not wait for others: one statement costs each of them next to nothing.
const FULL: usize = 1_000;

/// How long results wait for others where they come in crowds.
const GATHERING: Duration = Duration::from_millis(2);

/// How long a batch waits for a row that somebody has locked: an open transaction, or for a moment another
/// runner's fetch that came by when the job was not running yet. Short, since it keeps a connection of the desk.
const PATIENCE: Duration = Duration::from_millis(50);

/// An attempt that ended.
pub(super) struct Ended {
    /// The lease under which the job was fetched.
    pub(super) lease: Arc<Lease>,
    /// What the attempt is in hand by.
    pub(super) stop: Arc<Stop>,
    pub(super) track: Arc<Track>,
    pub(super) result: FinishResult,
    /// Whether the row goes if the attempt completed the job.
    pub(super) is_deleted: bool,
    /// Whether the worker completed the job in a transaction of its own: then the database is
    /// expected to drop this result.
    pub(super) was_completed_in: bool,
}

impl Ended {
    /// The statement that records it with the least work.
    const fn way(&self) -> Way {
        match self.result.verdict {
            Verdict::Complete { .. } if self.is_deleted => Way::Delete,
            Verdict::Complete { output: None } if self.result.progress.is_none() => Way::Complete,
            _ => Way::Finish,
        }
    }
}

/// How a result is recorded: the job's row goes, only changes its state, or takes more.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Way {
    Delete,
    Complete,
    Finish,
}

/// Records results until the runner says that none will come any more.
pub(super) async fn complete(shared: Arc<Shared>, mut results: mpsc::UnboundedReceiver<Ended>) {
    let mut gathered = Vec::with_capacity(BATCH);
    let mut latest = 0;
    loop {
        if latest >= CROWD && results.len() < FULL {
            tokio::select! {
                () = tokio::time::sleep(GATHERING) => {}
                () = shared.drained.cancelled() => {}
            }
        }
        shared.is_completer_waiting.store(true, Ordering::Release);
        tokio::select! {
            // In this order, so that what was sent before the end is recorded.
            biased;
            _ = results.recv_many(&mut gathered, BATCH) => {}
            () = shared.drained.cancelled() => return,
        }
        shared.is_completer_waiting.store(false, Ordering::Release);
        latest = gathered.len();
        // A lease that was lost leaves results under two ids for a moment. One statement for each
        // way, so that none is sent again for another's sake.
        let mut batches: BTreeMap<(Uuid, Way), Vec<Ended>> = BTreeMap::new();
        for ended in gathered.drain(..) {
            batches.entry((ended.lease.id, ended.way())).or_default().push(ended);
        }
        for batch in batches.into_values() {
            record(Arc::clone(&shared), batch, Place::Line).await;
        }
    }
}

/// Records one result, and waits as long as that takes.
#[cfg(feature = "testing")]
pub(super) async fn record_one(shared: Arc<Shared>, ended: Ended) {
    record(shared, vec![ended], Place::Aside).await;
}

/// Where a batch is recorded: one after another in the line, or aside, where it holds up nobody.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Place {
    Line,
    Aside,
}

/// Sends one lease's batch until the database took it. After a lost lease nothing of it would count.
async fn record(shared: Arc<Shared>, mut batch: Vec<Ended>, place: Place) {
    let Some(lease) = batch.first().map(|ended| Arc::clone(&ended.lease)) else {
        return;
    };
    // Rows are locked in one order, as everywhere, and the statements find their places by it. Of a
    // job that somebody set back meanwhile only the latest attempt can count.
    batch.sort_by_key(|ended| (ended.result.id, std::cmp::Reverse(ended.result.attempt)));
    batch.dedup_by(|older, newer| {
        let is_over = older.result.id == newer.result.id;
        if is_over {
            track::stale(&shared.client, older);
        }
        is_over
    });
    let mut failure_wait = GrowingWait::new();
    // What waits aside is tried at once when a stop comes to it, however long its turn was still to come.
    let mut is_last_call_due = place == Place::Aside;
    let finished = loop {
        let timer = Timer::start();
        let sending = async {
            // One at a time of those that wait aside: together they would take every connection of the desk.
            let _turn = match place {
                Place::Aside => shared.aside_turn.acquire().await.ok(),
                Place::Line => None,
            };
            send(&shared, lease.id, &batch).await
        };
        let sent = tokio::select! {
            sent = sending => sent,
            // A database that does not even answer must not hold up a stop for longer than a lease.
            () = lease.lost.cancelled() => return lost(&shared, &batch),
        };
        match sent {
            Ok(finished) => {
                shared.meter.finished(timer, batch.len());
                break finished;
            }
            Err(error) if is_hopeless(&error) && batch.len() > 1 => {
                // One result that the database refuses must not hold up the others.
                for ended in batch {
                    Box::pin(record(Arc::clone(&shared), vec![ended], place)).await;
                }
                return;
            }
            // A transaction that somebody left open must not hold up the others' results.
            Err(error) if error.is_lock_timeout() && place == Place::Line => match set_aside(&shared, batch).await {
                free if free.is_empty() => return,
                free => {
                    batch = free;
                    continue;
                }
            },
            Err(error) if error.is_lock_timeout() => {
                tracing::debug!("somebody still has the job of a result locked");
            }
            Err(error) if is_hopeless(&error) => {
                tracing::error!(%error, "the database refuses a result; recording a failure instead");
                replace_by_failure(&mut batch, &error);
            }
            Err(error) => tracing::warn!(%error, "results not recorded yet, trying again"),
        }
        // Where only the answer was lost, a job that was given back may be here again, as the same
        // attempt of the same worker: its first result must not end that.
        batch.retain(|ended| shared.is_in_hand(ended));
        if batch.is_empty() {
            return;
        }
        tokio::select! {
            () = lease.lost.cancelled() => return lost(&shared, &batch),
            () = shared.drained.cancelled(), if is_last_call_due => is_last_call_due = false,
            () = tokio::time::sleep(failure_wait.grow()) => {}
        }
    };
    shared.let_go(&batch);
    lease.pace.count(&batch, &finished);
    track::ended(&shared.client, batch, &finished);
}

/// Lets results go that cannot count any more.
fn lost(shared: &Shared, batch: &[Ended]) {
    shared.let_go(batch);
    batch.iter().for_each(|ended| track::stale(&shared.client, ended));
}

/// Takes the results of locked rows out of a batch, to be recorded when the locks are gone. Answers with the others.
async fn set_aside(shared: &Arc<Shared>, batch: Vec<Ended>) -> Vec<Ended> {
    let ids: Vec<_> = batch.iter().map(|ended| ended.result.id.as_uuid()).collect();
    let unlocked = async {
        let mut connection = shared.desk.connection().await?;
        let unlocked = shared.desk.answer(store::unlocked(&mut connection, shared.client.statements(), &ids)).await;
        connection.settle(unlocked)
    };
    // If even that cannot be told, each waits for itself.
    let unlocked: HashSet<_> = unlocked.await.unwrap_or_default().into_iter().collect();
    let (free, locked): (Vec<_>, Vec<_>) = batch.into_iter().partition(|ended| unlocked.contains(&ended.result.id));
    for ended in locked {
        tracing::debug!(job.id = %ended.result.id, "somebody has the job locked: its result waits aside");
        shared.aside.spawn(record_aside(Arc::clone(shared), ended));
    }
    free
}

/// Boxed, since it is a recording that starts another.
fn record_aside(shared: Arc<Shared>, ended: Ended) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(record(shared, vec![ended], Place::Aside))
}

/// Answers with what became of the results.
async fn send(shared: &Shared, worker: Uuid, batch: &[Ended]) -> Result<Counted> {
    let mut connection = shared.desk.connection().await?;
    let statements = shared.client.statements();
    // A batch goes one way, unless its results had to be replaced.
    let is_all = |way: Way| batch.iter().all(|ended| ended.way() == way);
    let attempts: Vec<_> = batch.iter().map(|ended| (ended.result.id, ended.result.attempt)).collect();
    let finished = if is_all(Way::Delete) {
        let completing = store::complete_and_delete(&mut connection, statements, worker, &attempts, Some(PATIENCE));
        shared.desk.answer(completing).await
    } else if is_all(Way::Complete) {
        let completing = store::complete(&mut connection, statements, worker, &attempts, Some(PATIENCE));
        shared.desk.answer(completing).await
    } else {
        let results: Vec<_> = batch.iter().map(|ended| ended.result.clone()).collect();
        let finishing = store::finish(&mut connection, statements, worker, &results, Some(PATIENCE));
        shared.desk.answer(finishing).await
    };
    connection.settle(finished)
}

/// Whether the same statement would fail the same way again: the database did not like its data.
pub(super) fn is_hopeless(error: &Error) -> bool {
    match error {
        Error::Database(sqlx::Error::Database(database)) => {
            // Data exceptions, constraint violations and limits.
            database.code().is_some_and(|code| ["22", "23", "54"].contains(&&code[..2]))
        }
        Error::Database(sqlx::Error::Encode(_)) => true,
        _ => false,
    }
}

fn replace_by_failure(batch: &mut [Ended], error: &Error) {
    for ended in batch {
        // What a job said of its progress must not cost it its result.
        if ended.result.progress.take().is_some() {
            continue;
        }
        ended.result.verdict = Verdict::Discard { reason: format!("the result could not be stored: {error}") };
    }
}
