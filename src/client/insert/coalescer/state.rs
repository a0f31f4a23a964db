//! The state of the coalescer of one client: the inserts that wait, and how many senders there are.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::error::Result;
use crate::store::NewRow;
use crate::words::job::Inserted;

/// The most statements under way at once: while one commits, the next runs.
const MAX_SENDERS: usize = 2;

/// The number of waiting inserts from which a second statement runs beside the first. Fewer wait for the next one, because
/// a statement and a commit cost what many rows do.
const MIN_WAITING_FOR_SECOND: usize = 64;

/// Where the single inserts of one client wait.
#[derive(Debug, Default)]
pub(in crate::client) struct Coalescer {
    state: Mutex<State>,
}

impl Coalescer {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) waiting: Vec<SharedInsert>,
    pub(super) senders: usize,
}

impl State {
    /// Whether another sender may start, which then counts.
    pub(super) fn may_start(&mut self) -> bool {
        let starts = self.senders == 0 || self.senders < MAX_SENDERS && self.waiting.len() >= MIN_WAITING_FOR_SECOND;
        self.senders += usize::from(starts);
        starts
    }
}

/// One insert, and where its caller waits for the answer.
#[derive(Debug)]
pub(super) struct SharedInsert {
    pub(super) row: NewRow,
    pub(super) answer: oneshot::Sender<Reply>,
}

/// The reply that a caller receives.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every reply is an answer, and a box would be one more allocation for each"
)]
pub(super) enum Reply {
    Answer(Result<Inserted>),
    /// The sender ended before this was sent: its runtime shut down. The caller's runtime may be another.
    Unsent(Box<NewRow>),
}
