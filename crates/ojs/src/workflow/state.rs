//! How far a workflow is, by the states of its jobs.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uniqueue::{JobId, JobRow, JobState};

use crate::store::JobProgress;

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

/// One job of a workflow, or a workflow in it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum Part {
    Job { name: String, role: Role, job: JobId },
    Workflow { name: String, role: Role, kind: String, parts: Vec<Part> },
}

/// The rows of a workflow's jobs that still exist.
pub(crate) type Rows = HashMap<JobId, JobRow>;

/// A job, or what was read of it, that tells its state and the begin of its last attempt.
pub(crate) trait HasProgress {
    fn state(&self) -> JobState;
    fn attempted_at(&self) -> Option<OffsetDateTime>;
}

impl HasProgress for JobRow {
    fn state(&self) -> JobState {
        self.state
    }

    fn attempted_at(&self) -> Option<OffsetDateTime> {
        self.attempted_at
    }
}

impl HasProgress for JobProgress {
    fn state(&self) -> JobState {
        self.state
    }

    fn attempted_at(&self) -> Option<OffsetDateTime> {
        self.attempted_at
    }
}

impl Part {
    /// Its jobs, in the order in which they were read, each with its role.
    pub(crate) fn jobs(&self) -> Vec<(JobId, Role)> {
        match self {
            Self::Job { job, role, .. } => vec![(*job, *role)],
            Self::Workflow { parts, .. } => parts.iter().flat_map(Self::jobs).collect(),
        }
    }

    /// Gives its jobs the next of these ids.
    pub(crate) fn identify(&mut self, ids: &mut impl Iterator<Item = JobId>) {
        match self {
            Self::Job { job, .. } => *job = ids.next().unwrap_or(*job),
            Self::Workflow { parts, .. } => parts.iter_mut().for_each(|part| part.identify(ids)),
        }
    }

    const fn role(&self) -> Role {
        match self {
            Self::Job { role, .. } | Self::Workflow { role, .. } => *role,
        }
    }

    /// How it ended. `None`: it has not.
    pub(crate) fn end<R: HasProgress>(&self, rows: &HashMap<JobId, R>) -> Option<End> {
        match self {
            // A job that is deleted counts as completed: retention keeps discarded jobs longest, and the end of a workflow is
            // noted long before.
            Self::Job { job, .. } => match rows.get(job).map_or(JobState::Completed, HasProgress::state) {
                JobState::Completed => Some(End::Completed),
                JobState::Discarded => Some(End::Failed),
                JobState::Cancelled => Some(End::Cancelled),
                _ => None,
            },
            // Also a batch, whose callbacks are cancelled where it never began.
            Self::Workflow { parts, .. } if parts.iter().all(|part| part.end(rows) == Some(End::Cancelled)) => {
                Some(End::Cancelled)
            }
            Self::Workflow { parts, .. } => match Progress::of(parts, rows).state() {
                "running" => None,
                "completed" => Some(End::Completed),
                _ => Some(End::Failed),
            },
        }
    }
}

/// How a job or a workflow in a workflow ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    Completed,
    Failed,
    Cancelled,
}

/// The counts of a workflow. A workflow in it counts as one.
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
    pub(crate) fn of<R: HasProgress>(parts: &[Part], rows: &HashMap<JobId, R>) -> Self {
        let mut progress = Self::default();
        for part in parts {
            let end = part.end(rows);
            progress.has_unfinished |= end.is_none();
            if part.role().is_callback() {
                progress.has_callbacks = true;
                // The callback of the other outcome is cancelled, and has not failed.
                progress.has_failed_callback |= end == Some(End::Failed);
                continue;
            }
            progress.total += 1;
            progress.completed += usize::from(end == Some(End::Completed));
            progress.failed += usize::from(matches!(end, Some(End::Failed | End::Cancelled)));
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

/// The jobs of parts, callbacks left out, by whether they completed or failed.
pub(crate) fn count_jobs(parts: &[Part], rows: &Rows) -> (usize, usize, usize) {
    let jobs = parts.iter().flat_map(Part::jobs).filter(|(_, role)| !role.is_callback());
    let (mut total, mut completed, mut failed) = (0, 0, 0);
    for (job, _) in jobs {
        total += 1;
        match rows.get(&job).map_or(JobState::Completed, |row| row.state) {
            JobState::Completed => completed += 1,
            JobState::Discarded | JobState::Cancelled => failed += 1,
            _ => {}
        }
    }
    (total, completed, failed)
}
