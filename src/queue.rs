//! Queues as an operator sees them: their settings, and what is in them.

use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

use crate::count::JobCount;
use crate::ident::QueueName;
use crate::retention::Keep;
use crate::state::JobState;

/// How a queue is set. A queue that nobody set anything for is not paused, has no limit, and keeps its jobs as the runners
/// say.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueSettings {
    /// The queue.
    pub name: QueueName,
    /// Since when no runner fetches from it. `None`: it is not paused.
    #[serde(with = "time::serde::rfc3339::option")]
    pub paused_at: Option<OffsetDateTime>,
    /// How many of its jobs may run at once, over all runners. `None`: as many as these have slots.
    pub limit: Option<u32>,
    /// How long its completed jobs are kept.
    pub keep_completed: Keep,
    /// How long its cancelled jobs are kept.
    pub keep_cancelled: Keep,
    /// How long its discarded jobs are kept.
    pub keep_discarded: Keep,
}

/// A queue and what is in it, as [`Client::queues`](crate::Client::queues) lists it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueInfo {
    /// How it is set.
    #[serde(flatten)]
    pub settings: QueueSettings,
    /// How many live runners work it.
    pub runners: u64,
    /// How long its oldest available job could have run already. `None`: no job is available.
    pub oldest_available_age: Option<Duration>,
    /// Jobs that wait for a free worker.
    pub available: JobCount,
    /// Jobs that a person stopped, or a successor replaced.
    pub cancelled: JobCount,
    /// Jobs that were worked.
    pub completed: JobCount,
    /// Jobs that were given up on.
    pub discarded: JobCount,
    /// Jobs that are held back.
    pub pending: JobCount,
    /// Jobs that failed and wait for their next attempt.
    pub retryable: JobCount,
    /// Jobs in the hands of a worker.
    pub running: JobCount,
    /// Jobs that wait for their time.
    pub scheduled: JobCount,
}

impl QueueInfo {
    /// How many of its jobs are in a state.
    #[must_use]
    pub const fn count(&self, state: JobState) -> JobCount {
        match state {
            JobState::Available => self.available,
            JobState::Cancelled => self.cancelled,
            JobState::Completed => self.completed,
            JobState::Discarded => self.discarded,
            JobState::Pending => self.pending,
            JobState::Retryable => self.retryable,
            JobState::Running => self.running,
            JobState::Scheduled => self.scheduled,
        }
    }
}
