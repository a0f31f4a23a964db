//! Queues and the jobs in them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uniqueue::{JobCount, JobState, QueueSettings};

use crate::{Admin, List};

/// A queue and its jobs, as [`Admin::queues`] lists it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueInfo {
    /// Its settings.
    #[serde(flatten)]
    pub settings: QueueSettings,
    /// Its status in a word, as in the view `queue_status`: `paused`, `held`, `no runner`, `at its limit`, `working`, `waiting` or
    /// `idle`.
    #[serde(skip_serializing)]
    pub status: String,
    /// How many live runners work it.
    pub runners: u64,
    /// How long its oldest available job has been due. `None` if no job is available.
    #[serde(with = "uniqueue::period::seconds::option")]
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
}

impl<'a> Admin<'a> {
    /// Lists every queue that has settings, a live runner or jobs, by name, with its jobs by state. Default: all of them.
    ///
    /// It is equally quick for a queue of ten million jobs: counts stop at a limit, and beyond it are estimated
    /// from 500 pages of the table ([`JobCount`]). Final and pending jobs are counted among the last 20,000 inserted, waiting ones
    /// among the first 20,000 to be due, discarded ones among the last 20,000. A queue that has only older final jobs
    /// is missing.
    pub fn queues(self) -> List<'a, QueueInfo> {
        List::all(self.client, include_str!("sql/queues.sql")).count_up_to(10_000)
    }
}

impl List<'_, QueueInfo> {
    /// Counts the jobs of each queue and state no further than this. Default: 10,000. 1 asks only whether there are jobs, so nothing
    /// is estimated.
    pub fn count_up_to(self, up_to: u32) -> Self {
        self.with("count_up_to", up_to.min(i32::MAX.unsigned_abs() - 1))
    }
}
