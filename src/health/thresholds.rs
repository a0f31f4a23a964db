//! The limits of findings.

use std::time::Duration;

use super::finding::Severity;

/// Two limits: of a warning, and of a critical finding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit<T> {
    /// A warning from here on.
    pub warning: T,
    /// Critical from here on.
    pub critical: T,
}

impl<T: PartialOrd> Limit<T> {
    /// Two limits.
    pub const fn new(warning: T, critical: T) -> Self {
        Self { warning, critical }
    }

    /// The severity of a value. `None`: it is below both limits.
    pub(super) fn judge(&self, value: &T) -> Option<Severity> {
        if *value >= self.critical {
            Some(Severity::Critical)
        } else if *value >= self.warning {
            Some(Severity::Warning)
        } else {
            None
        }
    }
}

impl Limit<Duration> {
    /// The severity of an age in seconds.
    pub(super) fn judge_age(&self, seconds: f64) -> Option<Severity> {
        self.judge(&Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }
}

/// The limits of findings. The defaults suit queues whose jobs should start within minutes.
///
/// ```
/// use std::time::Duration;
/// use uniqueue::{Limit, Thresholds};
///
/// // Jobs of this service should start within seconds.
/// let strict = Thresholds::new().waiting(Limit::new(Duration::from_secs(5), Duration::from_secs(60)));
/// # let _ = strict;
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Thresholds {
    pub(super) transaction: Limit<Duration>,
    pub(super) transactions_behind: Limit<u64>,
    pub(super) waiting: Limit<Duration>,
    pub(super) overdue: Limit<Duration>,
    pub(super) retention: Limit<Duration>,
    pub(super) dead_part: Limit<f64>,
    pub(super) dead_rows: u64,
    pub(super) notify_usage: Limit<f64>,
    pub(super) clock_offset: Limit<Duration>,
    pub(super) running: Duration,
    pub(super) slow: Duration,
    pub(super) slow_factor: u32,
    pub(super) claim: Duration,
    pub(super) bloat_factor: u32,
    pub(super) bloat_bytes: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Self {
            transaction: Limit::new(minutes(1), minutes(10)),
            transactions_behind: Limit::new(1_000_000, 10_000_000),
            waiting: Limit::new(minutes(5), minutes(60)),
            overdue: Limit::new(minutes(1), minutes(10)),
            retention: Limit::new(minutes(60), minutes(60 * 24)),
            dead_part: Limit::new(0.2, 0.5),
            dead_rows: 50_000,
            notify_usage: Limit::new(0.1, 0.5),
            clock_offset: Limit::new(Duration::from_secs(2), minutes(1)),
            running: minutes(60),
            slow: minutes(1),
            slow_factor: 10,
            claim: minutes(60),
            bloat_factor: 3,
            bloat_bytes: 8 << 20,
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        impl Thresholds {
            $($(#[$doc])* pub const fn $name(mut self, $name: $type) -> Self {
                self.$name = $name;
                self
            })*
        }
    };
}

impl Thresholds {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }
}

setters! {
    /// How long a transaction may be open, or prepared, that holds a snapshot, blocks other sessions or has changed rows
    /// of the queue. Default: a minute, ten minutes.
    transaction: Limit<Duration>,
    /// How many transactions the snapshot of a replication slot or a standby may be behind. PostgreSQL does not know their
    /// age. Default: 1,000,000 and 10,000,000.
    transactions_behind: Limit<u64>,
    /// How long the oldest available job of a queue, and the first job of a group, may wait. Default: 5 minutes, an hour.
    waiting: Limit<Duration>,
    /// How long a job may be due without being made available, or be held by a dead runner without being rescued.
    /// Default: a minute, ten minutes.
    overdue: Limit<Duration>,
    /// How long a final job may stay after its retention. Default: an hour, a day.
    retention: Limit<Duration>,
    /// How much of a table may be dead rows, 0 to 1, where there are at least [`Thresholds::dead_rows`]. Default: 0.2
    /// and 0.5.
    dead_part: Limit<f64>,
    /// From how many dead rows on a table is judged. Default: 50,000.
    dead_rows: u64,
    /// How full the server's queue of notifications may be, 0 to 1. Default: 0.1 and 0.5.
    notify_usage: Limit<f64>,
    /// How far the clocks of client and database may be apart. Default: 2 seconds, a minute.
    clock_offset: Limit<Duration>,
    /// From which running time on a job of a live runner is a notice. Default: an hour.
    running: Duration,
    /// From which running time on a job is compared with others of its kind. Default: a minute.
    slow: Duration,
    /// How many times longer than 95 of 100 completed jobs of its kind a job may run. Default: 10.
    slow_factor: u32,
    /// From which age on a key is a notice, if its holder will not change state by itself. Default: an hour.
    claim: Duration,
    /// How many times the pages that it needs an index may have. Default: 3.
    bloat_factor: u32,
    /// From which size on an index is judged. Default: 8 MB.
    bloat_bytes: u64,
}
