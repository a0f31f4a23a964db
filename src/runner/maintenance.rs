//! The runner's part in maintenance, which any runner does for all: its settings, and starting it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::maintenance::{self, DatabaseService, Holder, MAX_CRASHES, Reindexer};
#[cfg(feature = "periodic")]
use crate::words::periodic::PeriodicJob;
use crate::words::retention::Retention;

/// The settings of maintenance.
#[derive(Clone, Debug)]
pub(super) struct MaintenanceSettings {
    pub(super) retention: Retention,
    pub(super) promote_interval: Duration,
    pub(super) prune_interval: Duration,
    pub(super) reindex_interval: Option<Duration>,
    #[cfg(feature = "periodic")]
    pub(super) periodic: Vec<PeriodicJob>,
    pub(super) max_crashes: u16,
}

impl Default for MaintenanceSettings {
    fn default() -> Self {
        Self {
            retention: Retention::default(),
            promote_interval: Duration::from_secs(1),
            prune_interval: Duration::from_secs(30),
            reindex_interval: Some(Duration::from_secs(86_400)),
            #[cfg(feature = "periodic")]
            periodic: Vec::new(),
            max_crashes: MAX_CRASHES,
        }
    }
}

impl MaintenanceSettings {
    /// The intervals, by the names of their setters.
    pub(super) fn intervals(&self) -> [(&'static str, Duration); 3] {
        [
            ("promote_interval", self.promote_interval),
            ("prune_interval", self.prune_interval),
            ("reindex_interval", self.reindex_interval.unwrap_or(Duration::MAX)),
        ]
    }

    /// Offers every service. `parent_ended`: signalled by the notification that a job with children ended. `None`: the runner
    /// does not listen.
    pub(super) fn start(
        &self,
        holder: &Holder,
        lease: Duration,
        parent_ended: Option<Arc<Notify>>,
        background: &TaskTracker,
        stopping: &CancellationToken,
    ) {
        for service in [
            DatabaseService::promoter(self.promote_interval),
            DatabaseService::expirer(self.promote_interval),
            DatabaseService::rescuer(lease, self.max_crashes),
            DatabaseService::releaser(holder, parent_ended, self.promote_interval),
            DatabaseService::pruner(self.prune_interval, self.retention),
        ] {
            background.spawn(maintenance::serve(service, holder.clone(), stopping.clone()));
        }
        #[cfg(feature = "periodic")]
        background.spawn(maintenance::serve(maintenance::PeriodicInserter, holder.clone(), stopping.clone()));
        if let Some(interval) = self.reindex_interval.filter(|_| holder.connection.has_session()) {
            background.spawn(maintenance::serve(Reindexer::new(interval), holder.clone(), stopping.clone()));
        }
    }
}
