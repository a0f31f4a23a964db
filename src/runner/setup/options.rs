//! The options of a runner that most applications leave alone, their defaults and their setters: retries, polls, lease, stop
//! and maintenance.

use std::time::Duration;

use super::builder::Runner;
use crate::maintenance::MAX_CRASHES;
use crate::period::LONGEST;
use crate::runner::maintainer::MaintenanceSettings;
use crate::words::retention::Retention;
use crate::words::retry::RetryPolicy;

/// The options. Their defaults are those of a new runner.
#[derive(Debug)]
pub(in crate::runner) struct RunnerOptions {
    pub(in crate::runner) retry_policy: RetryPolicy,
    pub(in crate::runner) timeout: Option<Duration>,
    pub(in crate::runner) poll_interval: Duration,
    pub(in crate::runner) maintenance: MaintenanceSettings,
    pub(in crate::runner) lease: Duration,
    pub(in crate::runner) stop_timeout: Duration,
    pub(in crate::runner) stop_grace: Duration,
    pub(in crate::runner) is_listening: bool,
}

impl Default for RunnerOptions {
    fn default() -> Self {
        Self {
            retry_policy: RetryPolicy::default(),
            timeout: None,
            poll_interval: Duration::from_secs(1),
            maintenance: MaintenanceSettings::default(),
            lease: Duration::from_secs(20),
            stop_timeout: Duration::from_secs(25),
            stop_grace: Duration::from_secs(1),
            is_listening: true,
        }
    }
}

impl RunnerOptions {
    /// The problem of a value that is below its least one.
    pub(in crate::runner) fn problem(&self) -> Option<String> {
        if self.lease < Duration::from_secs(1) {
            return Some(format!("a lease must be at least 1 s: {:?}", self.lease));
        }
        if self.maintenance.max_crashes < MAX_CRASHES {
            return Some(format!("max_crashes must be at least {MAX_CRASHES}: {}", self.maintenance.max_crashes));
        }
        let own = [("timeout", self.timeout.unwrap_or(Duration::MAX)), ("poll_interval", self.poll_interval)];
        (own.into_iter().chain(self.maintenance.intervals()))
            .find(|(_, interval)| *interval < Duration::from_millis(1))
            .map(|(name, interval)| format!("{name} must be at least 1 ms: {interval:?}"))
    }
}

/// How failed jobs try again, and how long a job may run. No time is longer than 100 years, so there is always an instant that
/// is so far away.
impl Runner {
    /// When failed jobs try again, unless their worker says otherwise. Default: exponential, from
    /// one second to an hour.
    pub fn retry_policy(mut self, retry_policy: RetryPolicy) -> Self {
        self.options.retry_policy = retry_policy;
        self
    }

    /// How long a job may run, unless its worker says otherwise ([`Worker::timeout`](crate::Worker::timeout)); at least 1 ms.
    /// `Duration::MAX`: as long as it likes. Default: as long as it likes, since only the application knows how long its work
    /// takes, and a runner that died is noticed by its lease.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }
}

/// How the runner polls, how long it counts as alive and how it stops.
impl Runner {
    /// How often an idle runner looks for jobs that no notification told of. Default: 1 s;
    /// at least 1 ms, at most 100 years, as which longer ones count.
    pub fn poll_interval(mut self, poll_interval: Duration) -> Self {
        self.options.poll_interval = poll_interval.min(LONGEST);
        self
    }

    /// Never listens and never asks to be notified: polling is all. For PgBouncer in transaction
    /// mode, where LISTEN succeeds and never fires.
    pub fn poll_only(mut self) -> Self {
        self.options.is_listening = false;
        self
    }

    /// How long the runner counts as alive after its last heartbeat; it sends four a term. The
    /// jobs of a runner that died are back when its term is over, after a back-off of a second, as soon as another runner
    /// looks: at the latest half a term, or 10 s, later. Default: 20 s; at least 1 s, at most 100 years, as which longer
    /// ones count.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease.min(LONGEST);
        self
    }

    /// How long a stop waits for running jobs before it tells them to stop; those that still run
    /// after the [`stop_grace`](Runner::stop_grace) are given back, without using up their attempt.
    /// Default: 25 s, so that all of it fits into the 30 s after which Kubernetes kills a process. At most 100 years,
    /// as which longer ones count.
    pub fn stop_timeout(mut self, stop_timeout: Duration) -> Self {
        self.options.stop_timeout = stop_timeout.min(LONGEST);
        self
    }

    /// How long work may go on after it was told to stop ([`AnyJob::stopped`]): to clean up, or
    /// to finish after all. Then it is dropped at its next `.await`. Default: 1 s, which is enough
    /// for a clean-up nearby, and short enough that a cancelled job frees its slot soon. Zero drops
    /// at once; at most 100 years, as which longer ones count. When the lease is lost there is no grace: the job may be
    /// running elsewhere.
    ///
    /// [`AnyJob::stopped`]: crate::AnyJob::stopped
    pub fn stop_grace(mut self, stop_grace: Duration) -> Self {
        self.options.stop_grace = stop_grace.min(LONGEST);
        self
    }
}

/// Maintenance: any of the runners does it for all.
impl Runner {
    /// How many crashes in a row discard a job. A crash is the death of the job's runner, or the loss of its lease. Default: 3;
    /// at least 3. The first crash may be the fault of any of the runner's jobs, and the second of another suspect that ran
    /// at the same time. From the second crash on a job runs alone.
    pub fn max_crashes(mut self, max_crashes: u16) -> Self {
        self.options.maintenance.max_crashes = max_crashes;
        self
    }

    /// How long final jobs are kept, where their queue does not say otherwise. Default: completed
    /// and cancelled a day, discarded a week.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.options.maintenance.retention = retention;
        self
    }

    /// How often the runner looks for scheduled and retryable jobs that are due, at the least. It also finds out when the
    /// next job is due, so a job starts on time unless it was inserted since with less than this to wait. Then it may be
    /// this late. Default: 1 s; at least 1 ms, at most 100
    /// years, as which longer ones count.
    pub fn promote_interval(mut self, promote_interval: Duration) -> Self {
        self.options.maintenance.promote_interval = promote_interval.min(LONGEST);
        self
    }

    /// How often final jobs that are old enough are deleted. Default: 30 s; at least 1 ms, at most 100 years, as which longer ones count.
    pub fn prune_interval(mut self, prune_interval: Duration) -> Self {
        self.options.maintenance.prune_interval = prune_interval.min(LONGEST);
        self
    }

    /// How often bloated indexes of the queue's own tables are looked for and rebuilt, with `REINDEX
    /// CONCURRENTLY`, one after another, on a connection opened for it. Counted over all runners, from
    /// when the queue's first one started. An index is rebuilt when it has at least 8 MB and three times
    /// the pages it needs. Only the owner of the tables can: with another role, and with
    /// [`poll_only`](Runner::poll_only), whose connections may have no session of their own, nothing is
    /// done. Default: a day; at least 1 ms. `Duration::MAX`: never in this runner.
    pub fn reindex_interval(mut self, reindex_interval: Duration) -> Self {
        let is_ever = reindex_interval < Duration::MAX;
        self.options.maintenance.reindex_interval = is_ever.then(|| reindex_interval.min(LONGEST));
        self
    }
}
