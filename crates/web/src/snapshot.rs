//! What the sampler saw last.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use time::OffsetDateTime;
use uniqueue::{AuditedKind, Diagnosis, QueueInfo, Stats};

/// How many points the sparklines have.
pub(crate) const POINTS: usize = 90;

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
    /// What `doctor` found last, which is asked less often. `None`: it has not answered yet.
    pub(crate) diagnosis: Option<Arc<Diagnosis>>,
    /// The last points, the newest last.
    pub(crate) history: VecDeque<Point>,
    /// Why the samples after this one failed.
    pub(crate) failure: Option<String>,
}

impl Snapshot {
    /// The database's time now.
    pub(crate) fn now(&self) -> OffsetDateTime {
        self.stats.asked_at + self.taken_at.elapsed()
    }
}

/// A point of the sparklines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// Jobs inserted a second.
    pub(crate) inserted: f64,
    /// Jobs completed a second.
    pub(crate) completed: f64,
    /// Attempts failed a second.
    pub(crate) failed: f64,
    /// Available jobs.
    pub(crate) available: f64,
}
