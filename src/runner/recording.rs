//! Recording a batch of results: sends it until the database took it.
//!
//! ```text
//! line ──sent──▶ recorded
//!  │ │ ▲
//!  │ │ └─ waits: the database is away ◀──┐
//!  │ └──▶ some jobs are locked: these wait aside, one by one
//!  └────▶ refused, or held up by another lock: sent part by part; what is refused alone waits aside (sifting)
//! aside ──sent──▶ recorded, or waits, until the lease is lost or a stop runs out of time
//! ```
//!
//! Invariants: no result waits in the line for the sake of another's row; what waits aside takes one connection of the
//! desk at a time; the runner fetches no more while too many results wait.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::completer::{Ended, Way};
use super::lease::Lease;
use super::refusal::{self, is_hopeless, is_refusal};
use super::sifting::sift;
use super::track;
use super::{GrowingWait, Shared, completed_in};
use crate::error::{Error, Result};
use crate::ident::JobId;
use crate::metrics::Timer;
use crate::store::{self, Counted};

/// How long a batch waits for a row that somebody has locked: an open transaction, or for a moment another
/// runner's fetch that came by when the job was not running yet. Short, since it keeps a connection of the desk.
const PATIENCE: Duration = Duration::from_millis(50);

/// The same of what waits aside, where it is tried again anyway and others wait for their turn; and of what is sent part
/// by part. The shortest that there is: none would be no limit.
pub(super) const IMPATIENCE: Duration = Duration::from_millis(1);

/// A batch that the server refused so often is sifted. What may pass, such as a deadlock, has passed by then.
const REFUSALS: u32 = 3;

/// Where a batch is recorded: one after another in the line, or aside, where it holds up nobody.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Place {
    Line,
    Aside,
}

/// Sends one lease's batch until the database took it. After a lost lease nothing of it would count.
pub(super) async fn record(shared: Arc<Shared>, mut batch: Vec<Ended>, place: Place) {
    let Some(lease) = batch.first().map(|ended| Arc::clone(&ended.lease)) else {
        return;
    };
    // Rows are locked in one order, as everywhere, and the statements find their places by it. Of a
    // job that was set back meanwhile only the latest run can count.
    batch.sort_by_key(|ended| (ended.result.id, std::cmp::Reverse(ended.result.run)));
    let mut over = Vec::new();
    batch.dedup_by(|older, newer| {
        let is_over = older.result.id == newer.result.id;
        if is_over {
            over.push((older.result.id, older.result.attempt));
            track::stale(&shared.client, older);
        }
        is_over
    });
    track::warn_of_stale(&over);
    let mut failure_wait = GrowingWait::new();
    let mut refusals = 0;
    // What waits is tried at once when a stop comes to it, however long its turn was still to come.
    let mut is_last_call_due = true;
    let finished = loop {
        let sending = async {
            // One at a time of those that wait aside: together they would take every connection of the desk.
            let (_turn, patience) = match place {
                Place::Aside => (shared.aside_turn.acquire().await.ok(), IMPATIENCE),
                Place::Line => (None, PATIENCE),
            };
            send(&shared, lease.id, &batch, patience).await
        };
        let sent = tokio::select! {
            sent = sending => sent,
            // A database that does not even answer must not hold up a stop for longer than a lease.
            () = lease.lost.cancelled() => return lost(&shared, batch).await,
        };
        let Err(error) = sent else { break sent };
        completed_in::doubt(&mut batch, &error);
        let is_held_up = place == Place::Line && error.is_lock_timeout();
        if is_held_up {
            let sent = batch.len();
            let locked = tokio::select! {
                locked = locked(&shared, &batch) => locked,
                () = lease.lost.cancelled() => return lost(&shared, batch).await,
            };
            // A transaction that somebody left open must not hold up the others' results.
            batch = set_aside(&shared, batch, &locked);
            if batch.is_empty() {
                return;
            }
            if batch.len() < sent {
                continue;
            }
        }
        // Nobody has the jobs: a lock on something else, such as a row that a trigger changes, is as good as a refusal.
        let is_refused = is_refusal(&error) || is_held_up;
        refusals += u32::from(is_refused);
        match place {
            // Nor must a result that the database refuses.
            Place::Line if is_hopeless(&error) || (is_refused && refusals >= REFUSALS) => {
                tracing::warn!(%error, results = batch.len(), "the database takes no batch: sending it part by part");
                let sent = batch.len();
                batch = sift(&shared, &lease, batch).await;
                if batch.len() < sent {
                    // It gets on, and what the database would take may come only after thousands that it refuses.
                    failure_wait.reset();
                }
            }
            Place::Aside if error.is_lock_timeout() => {
                tracing::debug!("somebody's lock is still in the way of a result");
            }
            Place::Aside if is_hopeless(&error) && replace_each(&mut batch, &error) => {}
            // It was told when it went aside.
            Place::Aside if refusals > 1 => tracing::debug!(%error, "the database still does not take a result"),
            _ => tracing::warn!(%error, "results not recorded yet, trying again"),
        }
        tokio::select! {
            () = lease.lost.cancelled() => return lost(&shared, batch).await,
            () = shared.drained.cancelled(), if is_last_call_due => is_last_call_due = false,
            () = tokio::time::sleep(failure_wait.grow()) => {}
        }
    };
    if let Ok(finished) = finished {
        recorded(&shared, &lease, batch, &finished).await;
    }
}

/// Replaces the results that can be. `true`: one was.
fn replace_each(batch: &mut [Ended], error: &Error) -> bool {
    let replaced = batch.iter_mut().map(|ended| replace(ended, error));
    // Every one of them, also after the first.
    replaced.filter(|is_replaced| *is_replaced).count() > 0
}

/// Replaces a result by one that can be stored, if there is one.
pub(super) fn replace(ended: &mut Ended, error: &Error) -> bool {
    let Some(instead) = refusal::replace(ended, error) else { return false };
    tracing::error!(job.id = %ended.result.id, %error, instead, "the database refuses a result: it is replaced");
    true
}

/// Lets results go that are recorded: `finished` is what became of them.
pub(super) async fn recorded(shared: &Shared, lease: &Lease, mut batch: Vec<Ended>, finished: &Counted) {
    completed_in::look(shared, &mut batch, finished).await;
    shared.let_go(&batch);
    lease.pace.count(&batch, finished);
    track::ended(&shared.client, batch, finished);
}

/// Lets results go that cannot count any more.
pub(super) async fn lost(shared: &Shared, mut batch: Vec<Ended>) {
    let nothing = Counted::These(Default::default());
    completed_in::look_once_more(shared, &mut batch).await;
    shared.let_go(&batch);
    track::ended(&shared.client, batch, &nothing);
}

/// The jobs of a batch that somebody has locked.
async fn locked(shared: &Shared, batch: &[Ended]) -> HashSet<JobId> {
    let ids: Vec<_> = batch.iter().map(|ended| ended.result.id).collect();
    let locked = async {
        let mut connection = shared.desk.connection().await?;
        let locked = shared.desk.answer(store::locked(&mut connection, shared.client.statements(), &ids)).await;
        connection.settle(locked)
    };
    locked.await.unwrap_or_else(|error| {
        tracing::warn!(%error, results = ids.len(), "could not ask which jobs are locked: each result waits for itself");
        ids.into_iter().collect()
    })
}

/// Takes the results of locked rows out of a batch, to be recorded when the locks are gone. Answers with the others.
fn set_aside(shared: &Arc<Shared>, batch: Vec<Ended>, locked: &HashSet<JobId>) -> Vec<Ended> {
    let (locked, free): (Vec<_>, Vec<_>) = batch.into_iter().partition(|ended| locked.contains(&ended.result.id));
    for ended in locked {
        tracing::debug!(job.id = %ended.result.id, "somebody has the job locked: its result waits aside");
        put_aside(shared, ended);
    }
    free
}

/// Records a result where it holds up no other.
pub(super) fn put_aside(shared: &Arc<Shared>, ended: Ended) {
    // Boxed, since it is a recording that starts another.
    let recording: Pin<Box<dyn Future<Output = ()> + Send>> =
        Box::pin(record(Arc::clone(shared), vec![ended], Place::Aside));
    shared.aside.spawn(recording);
}

/// Answers with what became of the results.
pub(super) async fn send(shared: &Shared, worker: Uuid, batch: &[Ended], patience: Duration) -> Result<Counted> {
    let timer = Timer::start();
    let mut connection = shared.desk.connection().await?;
    let statements = shared.client.statements();
    // A batch goes one way, unless its results had to be replaced.
    let is_all = |way: Way| batch.iter().all(|ended| ended.way() == way);
    let runs: Vec<_> = batch.iter().map(|ended| (ended.result.id, ended.result.run)).collect();
    let finished = if is_all(Way::Delete) {
        let completing = store::complete_and_delete(&mut connection, statements, worker, &runs, Some(patience));
        shared.desk.answer(completing).await
    } else if is_all(Way::Complete) {
        let completing = store::complete(&mut connection, statements, worker, &runs, Some(patience));
        shared.desk.answer(completing).await
    } else {
        let results: Vec<_> = batch.iter().map(|ended| ended.result.clone()).collect();
        let finishing = store::finish(&mut connection, statements, worker, &results, Some(patience));
        shared.desk.answer(finishing).await
    };
    let sent = connection.settle(finished);
    if sent.is_ok() {
        shared.meter.finished(timer, batch.len());
    }
    sent
}
