//! The health of a runner, for probes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::runner::shared::Shared;

/// The health of a runner, as its process knows it: for the probes of an orchestrator. Made by
/// [`RunnerHandle::health`](crate::runner::RunnerHandle::health). It asks no database, clones are cheap, and it outlives the handle.
///
/// ```
/// # use uniqueue::{BoxError, Job, Runner, RunningJob, testing};
/// # #[derive(serde::Deserialize, serde::Serialize, Job)]
/// # #[job(kind = "ping")]
/// # struct Ping {}
/// # async fn ping(_: RunningJob<Ping>) {}
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # let database = testing::Database::new().await?;
/// let runner = Runner::new(database.client().clone()).queue("default", 4).worker(ping).start().await?;
/// let health = runner.health(); // for the handler of GET /health/live
/// assert!(health.is_alive() && !health.is_finished());
/// runner.stop().await?;
/// assert!(health.is_finished());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RunnerHealth {
    pub(in crate::runner) shared: Arc<Shared>,
    /// The tasks without which it does not work: producer, completer, heartbeat.
    pub(in crate::runner) parts: [AbortHandle; 3],
}

impl RunnerHealth {
    /// Whether the runner works: it has its lease, and no part of it has panicked. It stays alive while it stops, until it
    /// [is finished](Self::is_finished).
    ///
    /// Without its database it is not alive after a lease, and it is again soon after the database is back. So use this for
    /// readiness and alerts. To restart the process would not bring the database back.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let is_stopping = self.shared.signals.stopping.is_cancelled();
        let has_died = !is_stopping && self.parts.iter().any(AbortHandle::is_finished);
        let has_lease = !self.shared.leases.current().lost.is_cancelled();
        !self.is_finished() && !has_died && has_lease && self.last_heartbeat() < self.shared.options.lease
    }

    /// How long ago the last heartbeat was that the database answered. It comes four times a
    /// [lease](crate::Runner::lease).
    #[must_use]
    pub fn last_heartbeat(&self) -> Duration {
        self.shared.leases.current().last_heartbeat()
    }

    /// Whether the runner has stopped, and recorded every result that it could.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.parts.iter().all(AbortHandle::is_finished)
    }
}

impl fmt::Debug for RunnerHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerHealth")
            .field("is_alive", &self.is_alive())
            .field("last_heartbeat", &self.last_heartbeat())
            .field("is_finished", &self.is_finished())
            .finish()
    }
}
