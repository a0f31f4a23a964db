//! Single inserts that come at the same time fly together.
//!
//! An insert that finds nobody on the way goes at once, alone. Those that come while others are on
//! the way gather, and the next statement takes them all: no timer, nothing added when it is quiet,
//! and under load one commit serves many callers. Only inserts of their own go here, never those of a
//! caller's transaction.
//!
//! Invariants:
//! - Each caller gets its own job, duplicate or error. What the database refuses for one is sent again
//!   for each alone, since a refused statement has done nothing.
//! - Nobody waits for another's key: where a batch, even of one, meets the key of an open transaction,
//!   it is given back after a moment, and each goes alone, on a connection of its own.
//! - A flight ends itself in the same moment in which it sees that nobody waits, so nobody is left.
//! - Nobody waits for a statement that is not their own for longer than a second.
//!
//! Failures: a connection that breaks on the way is an error for all that were on it; whether they were
//! inserted is as open as with any statement. A caller that gave up before its batch left is left out.
//! A pool that has no connection in time is an error for all that wait by then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::{PgConnection, Postgres, pool::PoolConnection};
use tokio::sync::oneshot;

use super::Client;
use super::insert_many::{insert_rows, insert_shared};
use super::prepare::fold;
use crate::error::{Error, Rejection, Result};
use crate::job::Inserted;
use crate::store::NewRow;
use crate::unique::OnConflict;

/// The most statements on the way at once: while one commits, the next runs.
const FLIGHTS: usize = 2;

/// So many must wait before a second statement goes beside the first. Fewer are better off with the next
/// one: a statement and a commit cost what many rows do.
const CROWD: usize = 64;

/// The most inserts in one statement.
const BATCH: usize = 500;

/// After so many statements a connection goes back to the pool for a moment, so that others who
/// want one have their turn.
const TURN: usize = 10;

/// A statement that takes longer than this does not count as one on the way any more: others must not wait for
/// a connection that may never answer.
const SLOW: Duration = Duration::from_secs(1);

/// How often an insert joins again when a flight ended before it was sent.
const TRIES: u32 = 3;

/// How long a batch waits for a key of somebody's open transaction before each goes alone.
const PATIENCE: Duration = Duration::from_millis(5);

/// Where the single inserts of one client wait.
#[derive(Debug, Default)]
pub(super) struct Flights {
    waiting: Mutex<Waiting>,
    /// Whether all of those sent last were duplicates, and so probably those that come next.
    meets_duplicates: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    inserts: Vec<Single>,
    flights: usize,
}

/// One insert, and who waits for it.
#[derive(Debug)]
struct Single {
    row: NewRow,
    answer: oneshot::Sender<Reply>,
}

/// What a caller hears.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every reply is an answer, and a box would be one more allocation for each"
)]
enum Reply {
    Answer(Result<Inserted>),
    /// The flight ended before this was sent: its runtime shut down. The caller's may be another.
    Unsent(Box<NewRow>),
}

/// Whether a row may go with others: its outcome must be its own.
pub(super) fn may_share(row: &NewRow) -> bool {
    match row.claim.as_ref().map(|claim| claim.on_conflict) {
        None | Some(OnConflict::Ignore | OnConflict::Reject) => true,
        Some(OnConflict::Replace | OnConflict::ReplaceExceptSchedule) => false,
    }
}

impl Flights {
    /// Inserts one job, together with those that come at the same time.
    pub(super) async fn insert(client: &Client, mut row: NewRow) -> Result<Inserted> {
        // A refusal must not be the whole batch's. For one job it says what a duplicate says.
        let rejects = row
            .claim
            .as_mut()
            .is_some_and(|claim| std::mem::replace(&mut claim.on_conflict, OnConflict::Ignore) == OnConflict::Reject);
        let mut tries = 0;
        let inserted = loop {
            let (answer, answered) = oneshot::channel();
            if client.flights().join(Single { row, answer }) {
                // A task of its own: the caller may give up, and others are on the way with it.
                start(client);
            }
            tries += 1;
            match answered.await {
                Ok(Reply::Answer(inserted)) => break inserted?,
                Ok(Reply::Unsent(unsent)) if tries < TRIES => row = *unsent,
                // It died with its runtime on the way, and what became of it is open.
                Ok(Reply::Unsent(_)) | Err(_) => return Err(sqlx::Error::WorkerCrashed.into()),
            }
        };
        match inserted.duplicate_of() {
            Some(duplicate) if rejects => Err(Error::Rejected(vec![Rejection::new(0, None, duplicate)])),
            _ => Ok(inserted),
        }
    }

    /// Joins those that wait. `true`: another statement may be sent.
    fn join(&self, single: Single) -> bool {
        let mut waiting = self.waiting();
        waiting.inserts.push(single);
        let starts = waiting.flights == 0 || waiting.flights < FLIGHTS && waiting.inserts.len() >= CROWD;
        waiting.flights += usize::from(starts);
        starts
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics while it holds the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the statements that may be on the way.
struct Flight {
    client: Client,
    is_over: bool,
}

impl Flight {
    /// Takes those that wait. `None`: nobody does, and the flight is over.
    fn board(&mut self) -> Option<Vec<Single>> {
        let mut waiting = self.client.flights().waiting();
        waiting.inserts.retain(|single| !single.answer.is_closed());
        if waiting.inserts.is_empty() {
            waiting.flights -= 1;
            self.is_over = true;
            return None;
        }
        let size = waiting.inserts.len().min(BATCH);
        Some(waiting.inserts.drain(..size).collect())
    }
}

impl Flight {
    /// Makes room for another, which takes those that wait. This one ends with its statement.
    fn step_aside(&mut self) {
        let mut waiting = self.client.flights().waiting();
        self.is_over = true;
        if waiting.inserts.is_empty() {
            waiting.flights -= 1;
        } else {
            start(&self.client);
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut waiting = self.client.flights().waiting();
        waiting.flights -= 1;
        // Nobody else would come for them.
        let left = if waiting.flights == 0 { std::mem::take(&mut waiting.inserts) } else { Vec::new() };
        drop(waiting);
        for Single { row, answer } in left {
            drop(answer.send(Reply::Unsent(Box::new(row))));
        }
    }
}

/// Starts a flight, which counts as one already.
fn start(client: &Client) {
    tokio::spawn(fly(Flight { client: client.clone(), is_over: false }));
}

/// Sends what waits until nobody does.
async fn fly(mut flight: Flight) {
    let client = flight.client.clone();
    loop {
        // Before boarding: who comes while it waits for a connection comes along.
        let connection = client.connection().await;
        let is_over = match connection {
            Ok(connection) => turn(&client, &mut flight, connection).await,
            Err(error) => match flight.board() {
                Some(batch) => {
                    batch.into_iter().for_each(|single| single.answer(Err(alike(&error))));
                    false
                }
                None => true,
            },
        };
        if is_over {
            return;
        }
    }
}

/// Sends a few batches over one connection. `true`: nobody waits any more.
async fn turn(client: &Client, flight: &mut Flight, mut connection: PoolConnection<Postgres>) -> bool {
    for _ in 0..TURN {
        let Some(batch) = flight.board() else { return true };
        let mut sending = std::pin::pin!(send(client, &mut connection, batch));
        let is_well = match tokio::time::timeout(SLOW, &mut sending).await {
            Ok(is_well) => is_well,
            Err(_) => {
                flight.step_aside();
                sending.await;
                return true;
            }
        };
        if !is_well {
            return false;
        }
        // Those who were answered may have the next insert at hand: then it goes with this one's neighbours.
        tokio::task::yield_now().await;
    }
    false
}

/// Sends a batch and answers everybody. `false`: the connection should be looked at.
async fn send(client: &Client, connection: &mut PgConnection, mut batch: Vec<Single>) -> bool {
    if let [single] = &batch[..]
        && single.row.claim.is_none()
    {
        // It meets no key, so it waits for nobody and holds up nobody.
        let Some(single) = batch.pop() else { return true };
        return single.send(client, connection).await;
    }
    let rows = batch.iter().map(|single| single.row.clone()).collect();
    let meets_duplicates = &client.flights().meets_duplicates;
    // Until this one says so again.
    let looks_first = meets_duplicates.swap(false, Ordering::Relaxed);
    match insert_shared(client, connection, fold(rows, false), PATIENCE, looks_first).await {
        Ok(inserted) => {
            let is_duplicate =
                |inserted: &Option<Inserted>| inserted.as_ref().is_some_and(|inserted| inserted.duplicate);
            meets_duplicates.store(inserted.iter().all(is_duplicate), Ordering::Relaxed);
            for (single, inserted) in batch.into_iter().zip(inserted) {
                match inserted {
                    Some(inserted) => single.answer(Ok(inserted)),
                    None => drop(tokio::spawn(alone(client.clone(), single))),
                }
            }
            true
        }
        Err(error) if did_nothing(&error) => {
            for single in batch {
                tokio::spawn(alone(client.clone(), single));
            }
            matches!(error, Error::Busy { .. }) || error.is_lock_timeout()
        }
        Err(error) => {
            batch.into_iter().for_each(|single| single.answer(Err(alike(&error))));
            false
        }
    }
}

/// Sends an insert that did not get through with others.
async fn alone(client: Client, single: Single) {
    match client.connection().await {
        Ok(mut connection) => drop(single.send(&client, &mut connection).await),
        Err(error) => single.answer(Err(error)),
    }
}

impl Single {
    /// Sends it alone, with all the time in the world. `false`: the connection should be looked at.
    async fn send(self, client: &Client, connection: &mut PgConnection) -> bool {
        let Self { row, answer } = self;
        let inserted = insert_rows(client, connection, fold(vec![row], false), None).await;
        let is_well = inserted.is_ok();
        let inserted = inserted.and_then(|mut inserted| inserted.pop().ok_or_else(|| sqlx::Error::RowNotFound.into()));
        drop(answer.send(Reply::Answer(inserted)));
        is_well
    }

    /// Answers the caller, if it is still there.
    fn answer(self, inserted: Result<Inserted>) {
        drop(self.answer.send(Reply::Answer(inserted)));
    }
}

/// Whether the database said no, so that nothing of the statement counts. What a pooler says of a lost
/// connection, or a server that is shutting down, leaves that open.
fn did_nothing(error: &Error) -> bool {
    match error {
        Error::Busy { .. } => true,
        Error::Database(sqlx::Error::Database(error)) => {
            !error.code().is_some_and(|code| code.starts_with("08") || code.starts_with("57P"))
        }
        _ => false,
    }
}

/// The same error for one more caller: most cannot be cloned.
fn alike(error: &Error) -> Error {
    let alike = match error {
        Error::Database(sqlx::Error::PoolTimedOut) => sqlx::Error::PoolTimedOut,
        Error::Database(sqlx::Error::PoolClosed) => sqlx::Error::PoolClosed,
        Error::Database(sqlx::Error::Io(error)) => {
            sqlx::Error::Io(std::io::Error::new(error.kind(), error.to_string()))
        }
        Error::Database(error) => sqlx::Error::Protocol(error.to_string()),
        error => sqlx::Error::Protocol(error.to_string()),
    };
    alike.into()
}
