//! The eight states of a job.

mod parse;

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of a job.
///
/// ```text
/// pending ─▶ available ─▶ running ─▶ completed
///    scheduled ─▲   ▲         ├────▶ cancelled
///                retryable ◀──┴────▶ discarded
/// ```
///
/// `Completed`, `Cancelled` and `Discarded` are *final*: a job leaves them only
/// when an operator retries it or retention deletes it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Held back until it is released.
    Pending,
    /// Waiting for its `scheduled_at`.
    Scheduled,
    /// Waiting for a free worker.
    Available,
    /// Run by a worker.
    Running,
    /// Failed, and waiting for its next attempt at `scheduled_at`.
    Retryable,
    /// Its worker succeeded. Final.
    Completed,
    /// Stopped by an operator, by its worker or by a job that replaced it. Final.
    Cancelled,
    /// Out of attempts, or discarded by its worker or its policy. Final.
    Discarded,
}

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [JobState; 8] = [
        JobState::Pending,
        JobState::Scheduled,
        JobState::Available,
        JobState::Running,
        JobState::Retryable,
        JobState::Completed,
        JobState::Cancelled,
        JobState::Discarded,
    ];

    /// The state's name as SQL and JSON spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            JobState::Available => "available",
            JobState::Cancelled => "cancelled",
            JobState::Completed => "completed",
            JobState::Discarded => "discarded",
            JobState::Pending => "pending",
            JobState::Retryable => "retryable",
            JobState::Running => "running",
            JobState::Scheduled => "scheduled",
        }
    }

    /// Whether a job in this state is over.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, JobState::Cancelled | JobState::Completed | JobState::Discarded)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
