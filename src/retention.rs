//! How long final jobs are kept.

use std::time::Duration;

use serde::{Serialize, Serializer};

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

impl Default for Retention {
    fn default() -> Self {
        Self {
            completed: Some(uniqueue_policy::DEFAULT_RETENTION_OF_COMPLETED),
            cancelled: Some(Self::DAY),
            discarded: Some(7 * Self::DAY),
        }
    }
}
