//! The latest sample.

use std::sync::Arc;
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use uniqueue_admin::{AuditedKind, Diagnosis, History, QueueHistory, QueueInfo, RunnerInfo, Stats};

/// The age at which a sample is old: two samples after it are missing.
pub(crate) const OLD: Duration = Duration::from_secs(6);

/// The latest sample, and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// `None`: there was none yet.
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    /// Why there is no newer one: the last attempt failed. `None`: it did not fail.
    pub(crate) failure: Option<SampleFailure>,
}

/// An attempt at a sample that failed.
#[derive(Clone, Debug)]
pub(crate) struct SampleFailure {
    pub(crate) why: String,
    /// A statement took too long. So the database may answer others.
    pub(crate) is_slow: bool,
}

impl Seen {
    /// Why the sample is not to be taken for the state of now. `None`: it is new.
    pub(crate) fn problem(&self) -> Option<&str> {
        let is_new = self.snapshot.as_ref().is_some_and(|snapshot| snapshot.taken_at.elapsed() < OLD);
        match &self.failure {
            Some(failure) => Some(&failure.why),
            None if is_new => None,
            None => Some("its answer is late"),
        }
    }
}

/// The state of the queue at one time.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// When it was taken.
    pub(crate) taken_at: Instant,
    /// Counts, rates and times.
    pub(crate) stats: Stats,
    /// The queues.
    pub(crate) queues: Vec<QueueInfo>,
    /// How many inserts wait for other transactions. `None`: the role may not see it.
    pub(crate) waiting_inserts: Option<usize>,
    /// The kinds whose suppressed duplicates are counted.
    pub(crate) audited: Vec<AuditedKind>,
    /// The counts of each queue since it was first used. Empty: the role may not see them.
    pub(crate) totals: Arc<Vec<QueueHistory>>,
    /// The last findings of `doctor`, which is asked less often.
    pub(crate) doctor: Doctor,
    /// The history of the last hour. `None`: the role may not see it.
    pub(crate) hour: Option<Arc<History>>,
}

/// The last look of `doctor`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doctor {
    /// `None`: it has not answered yet.
    pub(crate) diagnosis: Option<Arc<Diagnosis>>,
    /// The error of the last diagnosis, if it failed.
    pub(crate) failure: Option<String>,
    /// The version of the runners that started last. `None`: they did not say.
    pub(crate) deploy: Option<Deploy>,
}

/// A version of the application, and when its first live runner started.
#[derive(Clone, Debug)]
pub(crate) struct Deploy {
    pub(crate) version: String,
    pub(crate) at: OffsetDateTime,
}

impl Deploy {
    /// The last deploy that live runners tell of.
    pub(crate) fn last(runners: &[RunnerInfo]) -> Option<Self> {
        let of = |runner: &&RunnerInfo| runner.is_alive && runner.version.is_some();
        let last = runners.iter().filter(of).max_by_key(|runner| runner.started_at)?;
        let first =
            runners.iter().filter(of).filter(|one| one.version == last.version).map(|one| one.started_at).min()?;
        Some(Self { version: last.version.clone()?, at: first })
    }
}

impl Snapshot {
    /// The database's time now.
    pub(crate) fn now(&self) -> OffsetDateTime {
        self.stats.asked_at + self.taken_at.elapsed()
    }
}
