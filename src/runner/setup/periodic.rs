//! The periodic jobs that a runner defines.

use std::collections::BTreeMap;
use std::future::IntoFuture;

use super::builder::Runner;
use crate::client::Client;
use crate::client::connections::time_limit;
use crate::error::{Error, Result};
use crate::runner::maintainer::MaintenanceSettings;
use crate::words::periodic::PeriodicJob;

impl Runner {
    /// Defines a [`PeriodicJob`] when the runner starts, or changes the one of its name: with another
    /// schedule it begins anew, otherwise it keeps its place, and a paused one stays paused. Any runner
    /// of the schema then inserts its jobs.
    ///
    /// A definition that is taken out of the code stays in the database until
    /// `uniqueue periodic remove` or the crate `uniqueue-admin` removes it: another process, or the version before this one, may
    /// still have it.
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
        self.options.maintenance.periodic.push(periodic);
        self
    }
}

impl Runner {
    /// Leaves out the periodic jobs that are not to be defined here.
    pub(crate) fn retain_periodic(mut self, keep: impl Fn(&PeriodicJob) -> bool) -> Self {
        self.options.maintenance.periodic.retain(keep);
        self
    }
}

impl MaintenanceSettings {
    /// Defines the periodic jobs. Answers with the digest of each.
    pub(in crate::runner) async fn define(&self, client: &Client) -> Result<BTreeMap<String, String>> {
        let mut names: Vec<_> = self.periodic.iter().map(|periodic| &periodic.name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::InvalidRunner { problem: format!("periodic job given twice: {}", twice[0]) });
        }
        let mut digests = BTreeMap::new();
        for periodic in &self.periodic {
            let defining = client.define_periodic_in_code(periodic.clone());
            let digest = time_limit::within(time_limit::QUERY_TIMEOUT, defining.into_future()).await?;
            digests.insert(periodic.name.clone(), digest);
        }
        Ok(digests)
    }
}
