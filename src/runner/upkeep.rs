//! What a runner does for all: its settings of maintenance, and starting it.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::builder::Runner;
use crate::maintenance::{self, Holder, Promoter, Pruner, Rescuer};
use crate::retention::Retention;

/// The settings of maintenance.
#[derive(Clone, Debug)]
pub(super) struct Upkeep {
    pub(super) retention: Retention,
    promote_interval: Duration,
    prune_interval: Duration,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            retention: Retention::default(),
            promote_interval: Duration::from_secs(1),
            prune_interval: Duration::from_secs(30),
        }
    }
}

impl Upkeep {
    /// The intervals, by the names of their setters.
    pub(super) fn intervals(&self) -> [(&'static str, Duration); 2] {
        [("promote_interval", self.promote_interval), ("prune_interval", self.prune_interval)]
    }

    /// Offers every service.
    pub(super) fn start(
        &self,
        holder: &Holder,
        lease: Duration,
        background: &TaskTracker,
        closing: &CancellationToken,
    ) {
        let promoter = Promoter::new(self.promote_interval);
        let rescuer = Rescuer::new(lease);
        let pruner = Pruner::new(self.prune_interval, self.retention);
        background.spawn(maintenance::serve(promoter, holder.clone(), closing.clone()));
        background.spawn(maintenance::serve(rescuer, holder.clone(), closing.clone()));
        background.spawn(maintenance::serve(pruner, holder.clone(), closing.clone()));
    }
}

/// Maintenance: any of the runners does it for all.
impl Runner {
    /// How long final jobs are kept, where their queue does not say otherwise. Default: completed
    /// and cancelled a day, discarded a week.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.upkeep.retention = retention;
        self
    }

    /// How often scheduled and retryable jobs are looked at, at the least. A look tells when the
    /// next job is due, so a job starts on time unless it was inserted since with less than this to
    /// wait; then it may be this late. Default: 1 s; at least 1 ms.
    pub fn promote_interval(mut self, promote_interval: Duration) -> Self {
        self.upkeep.promote_interval = promote_interval;
        self
    }

    /// How often the pruner walks the table. Default: 30 s; at least 1 ms.
    pub fn prune_interval(mut self, prune_interval: Duration) -> Self {
        self.upkeep.prune_interval = prune_interval;
        self
    }
}
