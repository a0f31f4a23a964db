//! What a runner does for all: its settings of maintenance, and starting it.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::builder::{LONGEST, Runner};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::maintenance::{self, Holder, Periodic, Promoter, Pruner, Reindexer, Rescuer};
use crate::periodic::{PeriodicJob, PeriodicSource};
use crate::retention::Retention;

/// The settings of maintenance.
#[derive(Clone, Debug)]
pub(super) struct Upkeep {
    pub(super) retention: Retention,
    promote_interval: Duration,
    prune_interval: Duration,
    reindex_interval: Option<Duration>,
    periodic: Vec<PeriodicJob>,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            retention: Retention::default(),
            promote_interval: Duration::from_secs(1),
            prune_interval: Duration::from_secs(30),
            reindex_interval: Some(Duration::from_secs(86_400)),
            periodic: Vec::new(),
        }
    }
}

impl Upkeep {
    /// The intervals, by the names of their setters.
    pub(super) fn intervals(&self) -> [(&'static str, Duration); 3] {
        [
            ("promote_interval", self.promote_interval),
            ("prune_interval", self.prune_interval),
            ("reindex_interval", self.reindex_interval.unwrap_or(Duration::MAX)),
        ]
    }

    /// Defines the periodic jobs.
    pub(super) async fn define(&self, client: &Client) -> Result<()> {
        let mut names: Vec<_> = self.periodic.iter().map(|periodic| &periodic.name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::InvalidRunner { problem: format!("periodic job given twice: {}", twice[0]) });
        }
        for periodic in &self.periodic {
            client.periodic().define_from(periodic.clone(), PeriodicSource::Code).await?;
        }
        Ok(())
    }

    /// Offers every service.
    pub(super) fn start(
        &self,
        holder: &Holder,
        lease: Duration,
        background: &TaskTracker,
        stopping: &CancellationToken,
    ) {
        let promoter = Promoter::new(self.promote_interval);
        let rescuer = Rescuer::new(lease);
        let pruner = Pruner::new(self.prune_interval, self.retention);
        background.spawn(maintenance::serve(promoter, holder.clone(), stopping.clone()));
        background.spawn(maintenance::serve(rescuer, holder.clone(), stopping.clone()));
        background.spawn(maintenance::serve(pruner, holder.clone(), stopping.clone()));
        background.spawn(maintenance::serve(Periodic, holder.clone(), stopping.clone()));
        if let Some(interval) = self.reindex_interval.filter(|_| holder.connection.has_session()) {
            background.spawn(maintenance::serve(Reindexer::new(interval), holder.clone(), stopping.clone()));
        }
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
    /// wait; then it may be this late. Default: 1 s; at least 1 ms, at most 100
    /// years, as which longer ones count.
    pub fn promote_interval(mut self, promote_interval: Duration) -> Self {
        self.upkeep.promote_interval = promote_interval.min(LONGEST);
        self
    }

    /// How often the pruner walks the table. Default: 30 s; at least 1 ms, at most 100 years, as which longer ones count.
    pub fn prune_interval(mut self, prune_interval: Duration) -> Self {
        self.upkeep.prune_interval = prune_interval.min(LONGEST);
        self
    }

    /// How often bloated indexes of the queue's own tables are looked for and rebuilt, with `REINDEX
    /// CONCURRENTLY`, one after another, on a connection opened for it. Counted over all runners, from
    /// when the queue's first one started. An index is rebuilt when it has at least 8 MB and three times
    /// the pages it needs. Only the owner of the tables can: with another role, and with
    /// [`poll_only`](Runner::poll_only), whose connections may have no session of their own, nothing is
    /// done. Default: a day; at least 1 ms, at most 100 years, as which longer ones count.
    pub fn reindex_interval(mut self, reindex_interval: Duration) -> Self {
        self.upkeep.reindex_interval = Some(reindex_interval.min(LONGEST));
        self
    }

    /// Never looks for bloated indexes in this runner.
    pub fn no_reindexing(mut self) -> Self {
        self.upkeep.reindex_interval = None;
        self
    }

    /// Defines a [`PeriodicJob`] when the runner starts, or changes the one of its name: with another
    /// schedule it begins anew, otherwise it keeps its place, and a paused one stays paused. Any runner
    /// of the schema then inserts its jobs.
    ///
    /// A definition that is taken out of the code stays in the database until somebody removes it
    /// ([`Periodic::remove`](crate::Periodic::remove)): another process, or the version before this
    /// one, may still have it.
    ///
    /// ```no_run
    /// # use serde::{Deserialize, Serialize};
    /// # use uniqueue::{Client, Job, PeriodicJob, Runner, RunningJob, shutdown_signal};
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(kind = "digest.send", queue = "emails")]
    /// # struct SendDigest {}
    /// # async fn send_digest(_: RunningJob<SendDigest>) {}
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// Runner::new(client)
    ///     .queue("emails", 20)
    ///     .worker(send_digest)
    ///     .periodic(PeriodicJob::cron("daily-digest", "0 9 * * *", SendDigest {}).time_zone("Europe/Berlin"))
    ///     .run_until(shutdown_signal())
    ///     .await
    /// # }
    /// ```
    pub fn periodic(mut self, periodic: PeriodicJob) -> Self {
        self.upkeep.periodic.push(periodic);
        self
    }
}
