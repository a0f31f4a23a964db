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

/// The jobs of a workflow that still exist.
pub(crate) struct Jobs {
    pub(crate) rows: HashMap<JobId, JobRow>,
    pub(crate) progress: Progresses,
}

/// How far jobs are.
pub(crate) type Progresses = HashMap<JobId, JobProgress>;

impl Jobs {
    pub(crate) fn of(rows: impl IntoIterator<Item = JobRow>) -> Self {
        let rows: HashMap<_, _> = rows.into_iter().map(|row| (row.id, row)).collect();
        let of = |row: &JobRow| JobProgress { state: row.state, attempted_at: row.attempted_at };
        Self { progress: rows.iter().map(|(id, row)| (*id, of(row))).collect(), rows }
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
    pub(crate) fn end(&self, progress: &Progresses) -> Option<End> {
        match self {
            // A job that is deleted counts as completed: retention keeps discarded jobs longest, and the end of a workflow is
            // noted long before.
            Self::Job { job, .. } => match progress.get(job).map_or(JobState::Completed, |job| job.state) {
                JobState::Completed => Some(End::Completed),
                JobState::Discarded => Some(End::Failed),
                JobState::Cancelled => Some(End::Cancelled),
                _ => None,
            },
            // Also a batch, whose callbacks are cancelled where it never began.
            Self::Workflow { parts, .. } if parts.iter().all(|part| part.end(progress) == Some(End::Cancelled)) => {
                Some(End::Cancelled)
            }
            Self::Workflow { parts, .. } => match Progress::of(parts, progress).state() {
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
    pub(crate) fn of(parts: &[Part], jobs: &Progresses) -> Self {
        let mut progress = Self::default();
        for part in parts {
            let end = part.end(jobs);
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
pub(crate) fn count_jobs(parts: &[Part], progress: &Progresses) -> (usize, usize, usize) {
    let jobs = parts.iter().flat_map(Part::jobs).filter(|(_, role)| !role.is_callback());
    let (mut total, mut completed, mut failed) = (0, 0, 0);
    for (job, _) in jobs {
        total += 1;
        match progress.get(&job).map_or(JobState::Completed, |job| job.state) {
            JobState::Completed => completed += 1,
            JobState::Discarded | JobState::Cancelled => failed += 1,
            _ => {}
        }
    }
    (total, completed, failed)
}

/// When the first job of a workflow began. A job that a unique step stands for can be older than the workflow.
pub(crate) fn started_at(created_at: OffsetDateTime, jobs: &Progresses) -> Option<OffsetDateTime> {
    let first = jobs.values().filter_map(|job| job.attempted_at).min();
    first.map(|at| at.max(created_at))
}

/// The jobs of parts, in the order of the workflow.
pub(crate) fn ids(parts: &[Part]) -> Vec<JobId> {
    parts.iter().flat_map(Part::jobs).map(|(job, _)| job).collect()
}
