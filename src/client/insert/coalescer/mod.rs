//! The coalescer: single inserts that come at the same time share a statement and a commit.
//!
//! An insert that finds no statement under way is sent at once, alone. Inserts that come while others are under way wait,
//! and the next statement takes them. At most two statements are under way at a time. No timer is involved: nothing is
//! added while it is quiet, and under load one commit serves many callers. Inserts of a caller's transaction never come
//! here.
//!
//! Invariants:
//! - Each caller gets its own job, duplicate or error. A statement that the database refuses has done nothing, so each
//!   of its inserts is sent again alone. If a queue was full, the inserts that it has room for and those of other queues are
//!   sent again together.
//! - Inserts that change or lock a holder share statements of their own, since those take the keys one by one.
//! - No insert waits for another insert's key. A statement that meets the key of an open transaction gives up after a
//!   few milliseconds, and each of its inserts is sent alone, on a connection of its own.
//! - A sender ends in the moment in which it sees that no insert waits, so none is left behind.
//! - No insert waits longer than a second for a statement that is not its own.
//!
//! Failures: a connection that breaks is an error for every insert that was under way on it. Whether they were inserted
//! is as open as with any statement. A caller that gave up before its statement was sent is left out. A pool that has no
//! connection in time is an error for every insert that waits by then.

mod sender;
mod shared;
mod state;

use std::future::Future;

use tokio::sync::oneshot;

pub(in crate::client) use self::state::Coalescer;

use self::sender::start;
use self::state::{Reply, SharedInsert};
use super::Client;
use crate::error::{Error, Rejection, Result};
use crate::store::NewRow;
use crate::unique::OnConflict;
use crate::words::job::Inserted;

/// How often an insert waits again when a sender ended before it was sent.
const MAX_TRIES: u32 = 3;

/// Inserts one job, together with those that come at the same time.
pub(super) fn insert_shared(client: &Client, mut row: NewRow) -> impl Future<Output = Result<Inserted>> {
    // A look at its key tells what to answer. For one job a rejection says what a duplicate says.
    let rejects = match &mut row.claim {
        Some(claim) if claim.terms.on_conflict == OnConflict::Reject => {
            claim.terms.on_conflict = OnConflict::Ignore;
            true
        }
        _ => false,
    };
    // Before the future, so that the future holds no row.
    let mut answered = enqueue(client, row);
    async move {
        let mut tries = 1;
        let inserted = loop {
            match answered.await {
                Ok(Reply::Answer(inserted)) => break inserted?,
                Ok(Reply::Unsent(unsent)) if tries < MAX_TRIES => answered = enqueue(client, *unsent),
                // The statement's task died with its runtime. Whether the job was inserted is open.
                Ok(Reply::Unsent(_)) | Err(_) => return Err(sqlx::Error::WorkerCrashed.into()),
            }
            tries += 1;
        };
        match inserted.duplicate_of() {
            Some(duplicate) if rejects => Err(Error::Rejected(vec![Rejection::of_holder(0, duplicate)])),
            _ => Ok(inserted),
        }
    }
}

/// Lets a row wait for the next statement.
fn enqueue(client: &Client, row: NewRow) -> oneshot::Receiver<Reply> {
    let (answer, answered) = oneshot::channel();
    let mut state = client.coalescer().state();
    state.waiting.push(SharedInsert { row, answer });
    let starts = state.may_start();
    drop(state);
    if starts {
        // A task of its own: the caller may give up, and others share the statement.
        start(client);
    }
    answered
}
