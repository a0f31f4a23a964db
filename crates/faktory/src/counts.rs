//! The counters of the process, for `INFO`.

use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// The counts of this process since it started.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) started_at: Instant,
    pub(crate) commands: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// Attempts that ended, failed ones among them.
    pub(crate) processed: AtomicU64,
    pub(crate) failures: AtomicU64,
}

impl Counts {
    pub(crate) fn new() -> Self {
        Self {
            started_at: Instant::now(),
            commands: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            processed: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }
}
