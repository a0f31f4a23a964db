//! The limits of findings.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

/// The limits of findings. The defaults suit queues whose jobs should start within minutes. A limit of two values is that of a
/// warning and that of a critical finding. `None`: no finding is critical.
///
/// It is the document that `diagnose(thresholds)` takes in SQL, with lengths of time in seconds.
///
/// ```
/// use std::time::Duration;
/// use uniqueue_admin::Thresholds;
///
/// // Jobs of this service should start within seconds.
/// let strict = Thresholds::new().waiting(Duration::from_secs(5), Duration::from_secs(60));
/// # let _ = strict;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[must_use]
pub struct Thresholds(Map<String, Value>);

/// The default limits of [`Thresholds::clock_offset`], in seconds.
const CLOCK_OFFSET: [f64; 2] = [2.0, 60.0];

/// A method for each limit: of one value, or of two.
macro_rules! thresholds {
    ($($(#[$doc:meta])* $name:ident: $type:ty $(, $critical:ident)?;)*) => {
        impl Thresholds {
            $($(#[$doc])*
            pub fn $name(self, warning: $type $(, $critical: impl Into<Option<$type>>)?) -> Self {
                self.with(stringify!($name), &[warning.threshold() $(, $critical.into().map_or(Value::Null, Threshold::threshold))?])
            })*
        }
    };
}

thresholds! {
    /// How far the clocks of client and database may be apart. Default: 2 seconds, a minute.
    clock_offset: Duration, critical;
    /// How long a transaction may be open, or prepared, that holds a snapshot, blocks other sessions or has changed rows
    /// of the queue. Default: a minute, ten minutes.
    transaction: Duration, critical;
    /// How many transactions the snapshot of a replication slot or a standby may be behind. PostgreSQL does not know their
    /// age. Default: 1,000,000 and 10,000,000.
    transactions_behind: u64, critical;
    /// How long the oldest available job of a queue, and the first job of a group, may wait. Default: 5 minutes, an hour.
    waiting: Duration, critical;
    /// How long a job may be due without being made available, or be held by a dead runner without being rescued.
    /// Default: a minute, ten minutes.
    overdue: Duration, critical;
    /// How long a final job may stay after its retention. Default: an hour, a day.
    retention: Duration, critical;
    /// How much of a table may be dead rows, 0 to 1, where there are at least [`Thresholds::dead_rows`]. Default: 0.2
    /// and 0.5.
    dead_part: f64, critical;
    /// From how many dead rows on a table is judged. Default: 50,000.
    dead_rows: u64;
    /// How full the server's queue of notifications may be, 0 to 1. Default: 0.1 and 0.5.
    notify_usage: f64, critical;
    /// From which running time on a job of a live runner is a notice. Default: an hour.
    running: Duration;
    /// From which running time on a job is compared with others of its kind. Default: a minute.
    slow: Duration;
    /// How many times longer than 95 of 100 completed jobs of its kind a job may run. Default: 10.
    slow_factor: u32;
    /// From which age on a key is a notice, if its holder will not change state by itself. Default: an hour.
    claim: Duration;
    /// How many times the pages that it needs an index may have. Default: 3.
    bloat_factor: u32;
    /// From which size on an index is judged. Default: 8 MB.
    bloat_bytes: u64;
}

impl Thresholds {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The members that the database knows: it does not know this machine's clock.
    pub(super) fn of_database(&self) -> Value {
        let mut document = self.0.clone();
        document.remove("clock_offset");
        Value::Object(document)
    }

    /// The limits of [`clock_offset`](Self::clock_offset), in seconds.
    pub(super) fn clock_offset_limits(&self) -> [f64; 2] {
        let Some(limits) = self.0.get("clock_offset") else { return CLOCK_OFFSET };
        [0, 1].map(|place| limits[place].as_f64().unwrap_or(f64::INFINITY))
    }

    fn with(mut self, name: &str, limits: &[Value]) -> Self {
        let limit = if let [one] = limits { one.clone() } else { json!(limits) };
        self.0.insert(name.to_owned(), limit);
        self
    }
}

/// A threshold as the database reads it: a number, a length of time in seconds.
trait Threshold {
    fn threshold(self) -> Value;
}

macro_rules! numbers {
    ($($type:ty)*) => {
        $(impl Threshold for $type {
            fn threshold(self) -> Value {
                Value::from(self)
            }
        })*
    };
}

numbers! { f64 u32 u64 }

impl Threshold for Duration {
    fn threshold(self) -> Value {
        Value::from(self.as_secs_f64())
    }
}
