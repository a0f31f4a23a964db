//! How long final jobs are kept.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::period;

/// How long final jobs are kept.
///
/// A claim that covers `completed` (River's default) lasts while its completed job is kept, and ends
/// with the deletion of the job. A final job whose claim has a deadline (`period`, `ttl`) is kept until
/// that deadline, even if its retention is shorter.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Retention {
    pub(crate) completed: Option<Duration>,
    pub(crate) cancelled: Option<Duration>,
    pub(crate) discarded: Option<Duration>,
}

impl Retention {
    const DAY: Duration = Duration::from_secs(86_400);

    /// Keeps every final job forever.
    pub const fn forever() -> Self {
        Self { completed: None, cancelled: None, discarded: None }
    }

    /// How long completed jobs are kept. Default: a day.
    pub const fn completed(mut self, keep: Duration) -> Self {
        self.completed = Some(keep);
        self
    }

    /// How long cancelled jobs are kept. Default: a day.
    pub const fn cancelled(mut self, keep: Duration) -> Self {
        self.cancelled = Some(keep);
        self
    }

    /// How long discarded jobs are kept. Default: a week.
    pub const fn discarded(mut self, keep: Duration) -> Self {
        self.discarded = Some(keep);
        self
    }
}

/// As many seconds count as no limit. The database stores 1,000 years, which differ by how months are counted.
const FOREVER: f64 = 900.0 * 365.0 * 86_400.0;

/// How long a queue keeps its jobs in one final state. In JSON null, `"forever"` or a number of seconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Keep {
    /// Nothing is set for the queue, so the runners' retention applies
    /// ([`Runner::retention`](crate::Runner::retention)).
    #[default]
    AsRunnersSay,
    /// Without a limit.
    Forever,
    /// For this long. Zero deletes completed jobs as they complete.
    For(Duration),
}

impl From<Option<Duration>> for Keep {
    /// Reads a length as [`Retention`] does: `None` means forever.
    fn from(length: Option<Duration>) -> Self {
        length.map_or(Self::Forever, Self::For)
    }
}

impl Serialize for Keep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::AsRunnersSay => serializer.serialize_none(),
            Self::Forever => serializer.serialize_str("forever"),
            Self::For(length) => period::seconds::serialize(length, serializer),
        }
    }
}

/// Reads what [`Serialize`] writes. 900 years or more are forever, as the database stores it.
impl<'de> Deserialize<'de> for Keep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Value::deserialize(deserializer)?;
        Ok(match stored.as_f64() {
            Some(seconds) if seconds < FOREVER => Self::For(Duration::try_from_secs_f64(seconds).unwrap_or_default()),
            None if stored.is_null() => Self::AsRunnersSay,
            _ => Self::Forever,
        })
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            completed: Some(uniqueue_policy::DEFAULT_RETENTION_OF_COMPLETED),
            cancelled: Some(Self::DAY),
            discarded: Some(7 * Self::DAY),
        }
    }
}
