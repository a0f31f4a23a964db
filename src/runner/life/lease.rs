//! The runner's lease: its identity in the database, and how long it counts as alive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::Result;
use crate::store::{CompletedKept, RunnerRow, Store, Worked};

/// One lease of the runner. Its id fences the results of the jobs fetched under it.
pub(in crate::runner) struct RunnerLease {
    pub(in crate::runner) id: Uuid,
    /// Fires when the lease is lost.
    pub(in crate::runner) lost: CancellationToken,
    /// When the database was about to be asked for it: it began no earlier.
    pub(in crate::runner) asked_at: Instant,
    /// When it was last extended, in milliseconds since then.
    extended_after: AtomicU64,
    /// The results recorded under it, which each heartbeat stores.
    worked: Mutex<Worked>,
}

impl RunnerLease {
    /// Enters a new lease in the database. Answers also with what the queues say of completed jobs.
    pub(in crate::runner) async fn take(
        store: Store<'_>,
        row: &RunnerRow,
        term: Duration,
    ) -> Result<(Self, CompletedKept)> {
        let id = Uuid::now_v7();
        let asked_at = Instant::now();
        let kept = store.register_runner(id, row, term).await?;
        let (lost, extended_after, worked) = Default::default();
        Ok((Self { id, lost, asked_at, extended_after, worked }, kept))
    }

    /// Notes a heartbeat that began then and was answered.
    pub(in crate::runner) fn note_heartbeat(&self, began: Instant) {
        let after = began.saturating_duration_since(self.asked_at).as_millis();
        self.extended_after.store(u64::try_from(after).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How long ago it was taken or extended.
    pub(in crate::runner) fn last_heartbeat(&self) -> Duration {
        self.asked_at.elapsed().saturating_sub(Duration::from_millis(self.extended_after.load(Ordering::Relaxed)))
    }

    /// Counts results that were recorded under it.
    pub(in crate::runner) fn count(&self, completed: i64, failed: i64) {
        let mut worked = self.worked();
        worked.completed += completed;
        worked.failed += failed;
    }

    pub(in crate::runner) fn worked(&self) -> MutexGuard<'_, Worked> {
        // Nothing panics while it holds the lock.
        self.worked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a lease that ran out. Its jobs are another runner's by now, and must be stopped.
    pub(in crate::runner) fn lose(&self) {
        if !self.lost.is_cancelled() {
            tracing::error!(runner = %self.id, "lease lost: its jobs are stopped and will be rescued");
            self.lost.cancel();
        }
    }

    /// Deletes the runner's row, so that the runner does not count as alive until the lease runs out.
    pub(in crate::runner) async fn give_up(&self, store: Store<'_>) -> Result<()> {
        store.remove_runner(self.id).await
    }
}

/// The current lease, and what a new one needs.
pub(in crate::runner) struct Leases {
    current: RwLock<Arc<RunnerLease>>,
    pub(in crate::runner) row: RunnerRow,
}

impl Leases {
    pub(in crate::runner) fn new(lease: RunnerLease, row: RunnerRow) -> Self {
        Self { current: RwLock::new(Arc::new(lease)), row }
    }

    pub(in crate::runner) fn current(&self) -> Arc<RunnerLease> {
        // Nothing panics while it holds the lock.
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(in crate::runner) fn replace(&self, lease: RunnerLease) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(lease);
    }
}
