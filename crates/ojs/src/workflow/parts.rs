//! The parts of a stored workflow: its jobs, and when the first one began.

use serde_json::Value;
use time::OffsetDateTime;
use uniqueue::JobId;

use super::state::{Part, Progresses};
use crate::store::Workflow;

pub(super) fn parts_of(workflow: &Workflow) -> Vec<Part> {
    read(workflow.parts.clone())
}

fn read(parts: Value) -> Vec<Part> {
    serde_json::from_value(parts).unwrap_or_default()
}

/// When the first job of a workflow began. A job that a unique step stands for can be older than the workflow.
pub(super) fn started_at(workflow: &Workflow, jobs: &Progresses) -> Option<OffsetDateTime> {
    let first = jobs.values().filter_map(|job| job.attempted_at).min();
    first.map(|at| at.max(workflow.created_at))
}

/// The jobs of stored parts, in the order of the workflow.
pub(crate) fn jobs_in(parts: Value) -> Vec<JobId> {
    ids(&read(parts))
}

/// The jobs of parts.
pub(super) fn ids(parts: &[Part]) -> Vec<JobId> {
    parts.iter().flat_map(Part::jobs).map(|(job, _)| job).collect()
}
