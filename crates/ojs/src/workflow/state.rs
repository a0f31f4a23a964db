//! How far a workflow is, by the states of its jobs.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uniqueue::JobState;

use crate::store::JobProgress;

/// A step of a workflow.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Part {
    pub(crate) name: String,
    /// `step`, `job`, or the name of a callback.
    pub(crate) role: String,
    #[serde(flatten)]
    pub(crate) work: Work,
}

/// One job of a workflow, or a workflow in it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum Work {
    Job {
        /// The place of its id among the jobs of the workflow.
        job: usize,
    },
    Workflow {
        kind: String,
        parts: Vec<Part>,
    },
}

/// How far the jobs of a workflow are, by their places. `None`: the job is deleted.
pub(crate) type Jobs = [Option<JobProgress>];

impl Part {
    fn is_callback(&self) -> bool {
        self.role.starts_with("on_")
    }

    /// The parts of its jobs, in the order in which they were read.
    pub(crate) fn jobs(&self) -> Vec<&Self> {
        match &self.work {
            Work::Job { .. } => vec![self],
            Work::Workflow { parts, .. } => parts.iter().flat_map(Self::jobs).collect(),
        }
    }

    /// `running`, `completed`, `failed` or `cancelled`.
    pub(crate) fn state(&self, jobs: &Jobs) -> &'static str {
        match &self.work {
            // A job that is deleted counts as completed: retention keeps discarded jobs longest, and the end of a workflow is
            // noted long before.
            Work::Job { job } => match jobs.get(*job).copied().flatten().map_or(JobState::Completed, |job| job.state) {
                JobState::Completed => "completed",
                JobState::Discarded => "failed",
                JobState::Cancelled => "cancelled",
                _ => "running",
            },
            // Also a batch, whose callbacks are cancelled where it never began.
            Work::Workflow { parts, .. } if parts.iter().all(|part| part.state(jobs) == "cancelled") => "cancelled",
            Work::Workflow { parts, .. } => Progress::of(parts, jobs).state,
        }
    }
}

/// The counts of parts without the callbacks, and the state of their workflow. A workflow in it counts as one.
pub(crate) struct Progress {
    pub(crate) total: usize,
    pub(crate) completed: usize,
    pub(crate) failed: usize,
    /// A batch with callbacks fails where a callback does. Any other workflow fails where a job does.
    pub(crate) state: &'static str,
}

impl Progress {
    pub(crate) fn of<'p>(parts: impl IntoIterator<Item = &'p Part>, jobs: &Jobs) -> Self {
        let states = parts.into_iter().map(|part| (part.is_callback(), part.state(jobs)));
        let (callbacks, states): (Vec<_>, Vec<_>) = states.partition(|(is_callback, _)| *is_callback);
        let count = |one: &str| states.iter().filter(|(_, state)| *state == one).count();
        let failed = count("failed") + count("cancelled");
        let has_callback = |one: &str| callbacks.iter().any(|(_, state)| *state == one);
        let is_running = count("running") > 0 || has_callback("running");
        // The callback of the other outcome is cancelled, and has not failed.
        let state = match (is_running, has_callback("failed"), failed == 0 || !callbacks.is_empty()) {
            (true, ..) => "running",
            (_, true, _) => "failed",
            (.., true) => "completed",
            _ => "failed",
        };
        Self { total: states.len(), completed: count("completed"), failed, state }
    }
}

/// When the first job of a workflow began. A job that a unique step stands for can be older than the workflow.
pub(crate) fn started_at(created_at: OffsetDateTime, jobs: &Jobs) -> Option<OffsetDateTime> {
    let first = jobs.iter().flatten().filter_map(|job| job.attempted_at).min();
    first.map(|at| at.max(created_at))
}
