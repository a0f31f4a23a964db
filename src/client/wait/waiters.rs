//! The waits of one client, by job.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::words::ident::JobId;
use crate::words::wait_result::Waited;

/// The waits of this client by job.
#[derive(Debug, Default)]
pub(in crate::client) struct Waiters {
    state: Mutex<Waiting>,
    /// Wakes the task: another wait began.
    pub(super) joined: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) waiting: HashMap<JobId, Vec<oneshot::Sender<Waited>>>,
    /// Whether the task runs.
    pub(super) is_asking: bool,
}

impl Waiters {
    pub(super) fn state(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
