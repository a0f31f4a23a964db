//! The eight states of a job.

use std::str::FromStr;

use crate::word::UnknownWord;

words! {
    member "state";

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
    ///
    /// `ALL` has them in the order of a job's life.
    #[derive(Ord, PartialOrd)]
    pub enum JobState {
        /// Held back until it is released.
        Pending = "pending",
        /// Waiting for its `scheduled_at`.
        Scheduled = "scheduled",
        /// Waiting for a free worker.
        Available = "available",
        /// Run by a worker.
        Running = "running",
        /// Failed, and waiting for its next attempt at `scheduled_at`.
        Retryable = "retryable",
        /// Its worker succeeded. Final.
        Completed = "completed",
        /// Stopped by an operator, by its worker or by a job that replaced it. Final.
        Cancelled = "cancelled",
        /// Out of attempts, or discarded by its worker or its policy. Final.
        Discarded = "discarded",
    }
}

impl JobState {
    /// Whether a job in this state is over.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, JobState::Cancelled | JobState::Completed | JobState::Discarded)
    }

    /// The state that a policy calls by this word: its name, or `active` for running, as the Open Job Spec calls it.
    ///
    /// # Errors
    ///
    /// [`UnknownWord`].
    pub fn of_policy(word: &str) -> Result<Self, UnknownWord> {
        if word == "active" { Ok(JobState::Running) } else { Self::from_str(word) }
    }
}
