//! Maintenance, which any runner does for all: its settings, starting it, and a process that does it and works no jobs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::client::Client;
use crate::error::Result;
use crate::maintenance::{self, DatabaseService, Holder, MAX_CRASHES, Reindexer, SharedConnection};
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

/// Does the maintenance of a queue in a process without a [`Runner`](crate::Runner): it makes due jobs available, takes back
/// jobs of dead workers, discards expired jobs, releases children, inserts periodic jobs and deletes old jobs. For services
/// that hand jobs on to remote workers (the crate `uniqueue-remote`).
///
/// Of any number of maintainers and runners, one does each service. It uses one connection of its own.
///
/// ```no_run
/// # use uniqueue::{Client, Maintainer};
/// # async fn run(client: Client) -> uniqueue::Result<()> {
/// let maintainer = Maintainer::new(client).start().await?;
/// // …
/// maintainer.stop().await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a maintainer does nothing until it is started"]
pub struct Maintainer {
    client: Client,
    name: String,
    rescue_interval: Duration,
    has_session: bool,
    settings: MaintenanceSettings,
}

impl Maintainer {
    /// The maintainer of a client's queue.
    pub fn new(client: Client) -> Self {
        let name = format!("maintainer {}", std::process::id());
        // The indexes are left to runners: the role of such a process seldom owns the tables.
        let settings = MaintenanceSettings { reindex_interval: None, ..MaintenanceSettings::default() };
        Self { client, name, rescue_interval: Duration::from_secs(1), has_session: true, settings }
    }

    /// Keeps nothing in the session of its connection. For PgBouncer in transaction mode.
    pub fn poll_only(mut self) -> Self {
        self.has_session = false;
        self
    }

    /// Its name as holder of leases, in the table `maintenance`. Default: `maintainer` and the process id.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How late a scheduled or retryable job may become available that was inserted shortly before it is due, and how late a
    /// job may be released whose parents end shortly after its insert. Default: 1 s; at least 20 ms.
    pub fn promote_interval(mut self, promote_interval: Duration) -> Self {
        self.settings.promote_interval = promote_interval.max(Duration::from_millis(20));
        self
    }

    /// How late the end of a reservation may be noticed. Default: 1 s; 50 ms to 10 s.
    pub fn rescue_interval(mut self, rescue_interval: Duration) -> Self {
        self.rescue_interval = rescue_interval.clamp(Duration::from_millis(50), Duration::from_secs(10));
        self
    }

    /// How long final jobs are kept, where their queue does not say otherwise. Default: completed
    /// and cancelled a day, discarded a week.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.settings.retention = retention;
        self
    }

    /// Starts the maintenance. It goes on until [`MaintainerHandle::stop`], or until the handle is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::NotMigrated`](crate::Error::NotMigrated) or [`Error::NewerSchema`](crate::Error::NewerSchema);
    /// [`Error::Database`](crate::Error::Database).
    pub async fn start(self) -> Result<MaintainerHandle> {
        let Self { client, name, rescue_interval, has_session, settings } = self;
        client.check_schema().await?;
        let own = client.own_connections();
        let holder =
            Holder { id: Uuid::now_v7(), runner: name, client, connection: SharedConnection::new(own, has_session) };
        let (background, stop) = (TaskTracker::new(), CancellationToken::new());
        // The rescuer rests for half of a lease.
        settings.start(&holder, rescue_interval * 2, None, &background, &stop);
        background.close();
        Ok(MaintainerHandle { background, stop: stop.drop_guard() })
    }
}

/// A running [`Maintainer`].
#[derive(Debug)]
pub struct MaintainerHandle {
    background: TaskTracker,
    stop: tokio_util::sync::DropGuard,
}

impl MaintainerHandle {
    /// Stops it, and releases its leases, so that another process takes over at once.
    pub async fn stop(self) {
        let Self { background, stop } = self;
        drop(stop);
        background.wait().await;
    }
}
