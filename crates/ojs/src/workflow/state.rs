//! How far a workflow is, by the states of its jobs.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use uniqueue::{JobId, JobRow, JobState};

/// The part of a job in its workflow.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Step,
    Job,
    OnComplete,
    OnSuccess,
    OnFailure,
}

impl Role {
    const fn is_callback(self) -> bool {
        matches!(self, Self::OnComplete | Self::OnSuccess | Self::OnFailure)
    }
}

/// One job of a workflow.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) job: JobId,
}

/// The rows of a workflow's jobs that still exist.
pub(crate) type Rows = HashMap<JobId, JobRow>;

/// The counts of a workflow.
#[derive(Default)]
pub(crate) struct Progress {
    /// Jobs that are no callbacks.
    pub(crate) total: usize,
    pub(crate) completed: usize,
    pub(crate) failed: usize,
    has_unfinished: bool,
    has_callbacks: bool,
    has_failed_callback: bool,
}

impl Progress {
    /// A job that is deleted counts as completed: retention keeps discarded jobs longest, and the end of a workflow is noted
    /// long before.
    pub(crate) fn of(parts: &[Part], rows: &Rows) -> Self {
        let mut progress = Self::default();
        for part in parts {
            let state = rows.get(&part.job).map_or(JobState::Completed, |row| row.state);
            progress.has_unfinished |= !state.is_final();
            let has_failed = matches!(state, JobState::Discarded | JobState::Cancelled);
            if part.role.is_callback() {
                progress.has_callbacks = true;
                // The callback of the other outcome is cancelled, and has not failed.
                progress.has_failed_callback |= state == JobState::Discarded;
                continue;
            }
            progress.total += 1;
            progress.completed += usize::from(state == JobState::Completed);
            progress.failed += usize::from(has_failed);
        }
        progress
    }

    /// The state of a workflow that was not cancelled as a whole. A batch with callbacks fails where a callback does. Any other
    /// workflow fails where a job does.
    pub(crate) const fn state(&self) -> &'static str {
        match self {
            Self { has_unfinished: true, .. } => "running",
            Self { has_failed_callback: true, .. } => "failed",
            Self { failed: 0, .. } | Self { has_callbacks: true, .. } => "completed",
            _ => "failed",
        }
    }
}
