//! Single inserts that come at the same time fly together.
//!
//! An insert that finds nobody on the way goes at once, alone. Those that come while others are on
//! the way gather, and the next statements, two at most at a time, take them: no timer, nothing added when it is quiet,
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

mod flight;
mod send;

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use self::flight::start;
use super::Client;
use crate::error::{Error, Rejection, Result};
use crate::job::Inserted;
use crate::store::NewRow;
use crate::unique::OnConflict;

/// The most statements on the way at once: while one commits, the next runs.
const FLIGHTS: usize = 2;

/// So many must wait before a second statement goes beside the first. Fewer are better off with the next
/// one: a statement and a commit cost what many rows do.
const CROWD: usize = 64;

/// The same where they probably only look, which ends in no commit: then what costs time is that client and database
/// wait for each other in turn.
const LOOKING_CROWD: usize = 8;

/// How often an insert joins again when a flight ended before it was sent.
const TRIES: u32 = 3;

/// Where the single inserts of one client wait.
#[derive(Debug, Default)]
pub(super) struct Flights {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    inserts: Vec<Single>,
    flights: usize,
}

impl Waiting {
    /// Whether another statement may be sent, which then counts.
    fn may_start(&mut self, are_held: bool) -> bool {
        let starts = self.flights == 0 || self.flights < FLIGHTS && self.are_crowd(are_held);
        self.flights += usize::from(starts);
        starts
    }

    /// Whether so many wait that a second statement goes beside the first.
    fn are_crowd(&self, are_held: bool) -> bool {
        let waiting = self.inserts.len();
        waiting >= CROWD || waiting >= LOOKING_CROWD && are_held && self.may_look()
    }

    /// Whether a look can tell what becomes of all who wait.
    fn may_look(&self) -> bool {
        self.inserts.iter().all(|single| single.row.claim.is_some())
    }
}

/// Lets a row wait for the next statement.
fn join(client: &Client, row: NewRow) -> oneshot::Receiver<Reply> {
    let (answer, answered) = oneshot::channel();
    if client.flights().join(Single { row, answer }, client.outlook().are_held()) {
        // A task of its own: the caller may give up, and others are on the way with it.
        start(client);
    }
    answered
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
    pub(super) fn insert(client: &Client, mut row: NewRow) -> impl Future<Output = Result<Inserted>> {
        // A refusal must not be the whole batch's. For one job it says what a duplicate says.
        let rejects = row
            .claim
            .as_mut()
            .is_some_and(|claim| std::mem::replace(&mut claim.on_conflict, OnConflict::Ignore) == OnConflict::Reject);
        // Now, so that what is awaited holds no row.
        let mut answered = join(client, row);
        async move {
            let mut tries = 1;
            let inserted = loop {
                match answered.await {
                    Ok(Reply::Answer(inserted)) => break inserted?,
                    Ok(Reply::Unsent(unsent)) if tries < TRIES => answered = join(client, *unsent),
                    // It died with its runtime on the way, and what became of it is open.
                    Ok(Reply::Unsent(_)) | Err(_) => return Err(sqlx::Error::WorkerCrashed.into()),
                }
                tries += 1;
            };
            match inserted.duplicate_of() {
                Some(duplicate) if rejects => Err(Error::Rejected(vec![Rejection::new(0, None, duplicate)])),
                _ => Ok(inserted),
            }
        }
    }

    /// Joins those that wait. `true`: another statement may be sent.
    fn join(&self, single: Single, are_held: bool) -> bool {
        let mut waiting = self.waiting();
        waiting.inserts.push(single);
        waiting.may_start(are_held)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics while it holds the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
