//! The limits of findings.

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

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
}

/// A threshold as the database reads it: a number, a length of time in seconds. What JSON cannot write is never reached.
trait Threshold {
    fn json(&self) -> Value;
}

macro_rules! numbers {
    ($($type:ty)*) => {
        $(impl Threshold for $type {
            fn json(&self) -> Value {
                Value::from(*self)
            }
        })*
    };
}

numbers! { f64 u32 u64 }

impl Threshold for Duration {
    fn json(&self) -> Value {
        self.as_secs_f64().json()
    }
}

impl<T: Threshold> Threshold for Limit<T> {
    fn json(&self) -> Value {
        Value::from(vec![self.warning.json(), self.critical.json()])
    }
}

fn write<T: Threshold, S: Serializer>(threshold: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    threshold.as_ref().map(Threshold::json).serialize(serializer)
}

macro_rules! thresholds {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
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
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
        #[must_use]
        pub struct Thresholds {
            /// No function of the database knows this machine's clock.
            #[serde(skip)]
            pub(super) clock_offset: Option<Limit<Duration>>,
            $(#[serde(serialize_with = "write", skip_serializing_if = "Option::is_none")]
            $name: Option<$type>,)*
        }

        impl Thresholds {
            $($(#[$doc])* pub const fn $name(mut self, $name: $type) -> Self {
                self.$name = Some($name);
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

    /// How far the clocks of client and database may be apart. Default: 2 seconds, a minute.
    pub const fn clock_offset(mut self, clock_offset: Limit<Duration>) -> Self {
        self.clock_offset = Some(clock_offset);
        self
    }
}

thresholds! {
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
