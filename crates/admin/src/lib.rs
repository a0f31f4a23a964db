#![doc = include_str!("../README.md")]

mod ask;
mod audit;
mod backfill;
mod change_log;
mod claims;
mod failures;
mod given;
mod groups;
mod health;
mod history;
mod history_counts;
mod job_verb;
mod kinds;
mod periodic;
#[cfg(feature = "metrics")]
mod queue_metrics;
mod queues;
mod relatives;
mod runners;
#[doc(hidden)]
pub mod statement;
mod stats;
mod thousands;
mod why;

use uniqueue::Client;

pub use self::ask::{Ask, List};
pub use self::audit::{AuditedKind, SuppressedDuplicate};
pub use self::backfill::{Backfill, BackfillProgress, BackfillReport, Collision, OnCollision, UnfitJob};
pub use self::change_log::LoggedChange;
pub use self::claims::{KeyHolder, WaitingInsert};
pub use self::failures::{FailingCode, FailingError, FailingKind};
pub use self::given::Given;
pub use self::groups::{GroupInfo, HeldGroup};
pub use self::health::{
    COMPARED_KEYS, Diagnose, Diagnosis, Finding, Remedy, Severity, SkippedCheck, Thresholds, diagnose_places,
    doubled_keys,
};
pub use self::history::{Deploy, History, HistoryPoint, KindHistory, QueueHistory};
pub use self::history_counts::{Histogram, HistoryCounts};
pub use self::job_verb::{JobVerb, VerbWords};
pub use self::kinds::{KindCache, KindRow};
pub use self::periodic::{Periodic, PeriodicChange, PeriodicRow, PeriodicRun, PeriodicSource};
pub use self::queues::{QueueCache, QueueInfo};
pub use self::relatives::JobChild;
pub use self::runners::{QueueRetention, RunnerInfo, RunnerQueue, RunningJobInfo, StuckJob};
pub use self::stats::{Finished, Percentiles, Rates, Stats};
pub use self::thousands::thousands;
pub use self::why::{FirstJob, Obstacle, ObstacleCode};

/// The questions and changes of operators in the schema of a client. Cheap to make and to copy.
#[derive(Clone, Copy, Debug)]
pub struct Admin<'a> {
    client: &'a Client,
}

impl<'a> Admin<'a> {
    /// The operators' side of a client's schema.
    #[must_use]
    pub const fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// The client.
    #[must_use]
    pub const fn client(self) -> &'a Client {
        self.client
    }
}
