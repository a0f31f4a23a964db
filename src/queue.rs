//! Queues for operators: their settings and their jobs.

use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

use crate::count::JobCount;
use crate::ident::QueueName;
use crate::rate::Rate;
use crate::retention::Keep;
use crate::state::JobState;

/// The settings of a queue. By default a queue is not paused, has no limit and no rate, and keeps its jobs by the runners' retention.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueSettings {
    /// The queue.
    pub name: QueueName,
    /// When it was paused. `None` if it is not paused.
    #[serde(with = "time::serde::rfc3339::option")]
    pub paused_at: Option<OffsetDateTime>,
    /// The name of the actor that paused it. `None` if no actor was named, or it is not paused.
    pub paused_by: Option<String>,
    /// Why it was paused. `None` if no reason was given, or it is not paused.
    pub pause_reason: Option<String>,
    /// How many of its jobs may run at once, over all runners. `None` means as many as the runners have slots for.
    pub limit: Option<u32>,
    /// How many jobs of each of its groups may run at once, over all runners. `None` means as many as the jobs
    /// themselves allow.
    pub group_limit: Option<u32>,
    /// How many available jobs it may have after an insert that adds to them. `None` means any number.
    pub max_waiting: Option<u32>,
    /// Whether its groups, and the jobs without a group as one more, take turns within a priority.
    pub fair: bool,
    /// How many of its jobs may start in a time, over all runners. `None` means any number.
    pub rate: Option<Rate>,
    /// How many jobs of each of its groups may start in a time, over all runners. `None` means any number.
    pub group_rate: Option<Rate>,
    /// Until when nothing is fetched from it, since a worker or an operator said so. `None` if it is not held.
    #[serde(with = "time::serde::rfc3339::option")]
    pub held_until: Option<OffsetDateTime>,
    /// How long its completed jobs are kept.
    pub keep_completed: Keep,
    /// How long its cancelled jobs are kept.
    pub keep_cancelled: Keep,
    /// How long its discarded jobs are kept.
    pub keep_discarded: Keep,
}

/// A queue and its jobs, as [`Client::queues`](crate::Client::queues) lists it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueInfo {
    /// Its settings.
    #[serde(flatten)]
    pub settings: QueueSettings,
    /// How many live runners work it.
    pub runners: u64,
    /// How long its oldest available job has been due. `None` if no job is available.
    #[serde(serialize_with = "crate::period::seconds::serialize_option")]
    pub oldest_available_age: Option<Duration>,
    /// Jobs that wait for a free worker.
    pub available: JobCount,
    /// Jobs that were cancelled, or replaced by another job.
    pub cancelled: JobCount,
    /// Jobs that succeeded.
    pub completed: JobCount,
    /// Jobs that failed for good.
    pub discarded: JobCount,
    /// Jobs that are held back.
    pub pending: JobCount,
    /// Jobs that failed and wait for their next attempt.
    pub retryable: JobCount,
    /// Jobs that a worker runs.
    pub running: JobCount,
    /// Jobs that are not due yet.
    pub scheduled: JobCount,
}

impl QueueInfo {
    /// Returns the number of its jobs in a state.
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

    pub(crate) const fn count_mut(&mut self, state: JobState) -> &mut JobCount {
        match state {
            JobState::Available => &mut self.available,
            JobState::Cancelled => &mut self.cancelled,
            JobState::Completed => &mut self.completed,
            JobState::Discarded => &mut self.discarded,
            JobState::Pending => &mut self.pending,
            JobState::Retryable => &mut self.retryable,
            JobState::Running => &mut self.running,
            JobState::Scheduled => &mut self.scheduled,
        }
    }
}
