//! The runner's lease: who it is to the database, and until when.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sqlx::PgConnection;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::pace::Pace;
use crate::error::Result;
use crate::store::{self, CompletedKept, RunnerRow, Statements};

/// One life of the runner. Its id fences the results of the jobs fetched under it.
pub(super) struct Lease {
    pub(super) id: Uuid,
    /// Fires when the lease is lost.
    pub(super) lost: CancellationToken,
    /// Before the database was asked for it: by then it had not begun.
    pub(super) asked_at: Instant,
    /// What was worked off under it.
    pub(super) pace: Pace,
}

impl Lease {
    /// Enters a new life in the database. Answers also with what the queues say.
    pub(super) async fn take(
        connection: &mut PgConnection,
        statements: &Statements,
        row: &RunnerRow,
        term: Duration,
    ) -> Result<(Self, CompletedKept)> {
        let id = Uuid::now_v7();
        let asked_at = Instant::now();
        let said = store::register_runner(connection, statements, id, row, term).await?;
        Ok((Self { id, lost: CancellationToken::new(), asked_at, pace: Pace::default() }, said))
    }

    /// Marks a lease that ran out. Its jobs are another's by now, and must be stopped.
    pub(super) fn lose(&self) {
        if !self.lost.is_cancelled() {
            tracing::error!(runner = %self.id, "lease lost: its jobs are stopped and will be rescued");
            self.lost.cancel();
        }
    }

    /// Takes the runner's row out, so that nobody waits for it to be dead.
    pub(super) async fn give_up(&self, connection: &mut PgConnection, statements: &Statements) -> Result<()> {
        store::remove_runner(connection, statements, self.id).await
    }
}

/// The current lease, and what a new one needs.
pub(super) struct Leases {
    current: RwLock<Arc<Lease>>,
    pub(super) row: RunnerRow,
    pub(super) term: Duration,
}

impl Leases {
    pub(super) fn new(lease: Lease, row: RunnerRow, term: Duration) -> Self {
        Self { current: RwLock::new(Arc::new(lease)), row, term }
    }

    pub(super) fn current(&self) -> Arc<Lease> {
        // Nothing panics while it holds the lock.
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn replace(&self, lease: Lease) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(lease);
    }
}
