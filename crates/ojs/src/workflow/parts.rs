//! The parts of a stored workflow: its jobs, and when the first one began.

use time::OffsetDateTime;
use uniqueue::JobId;

use super::state::{Part, Rows};
use crate::store::Workflow;

pub(super) fn parts_of(workflow: &Workflow) -> Vec<Part> {
    serde_json::from_value(workflow.parts.clone()).unwrap_or_default()
}

/// When the first job of a workflow began. A job that a unique step stands for can be older than the workflow.
pub(crate) fn started_at(workflow: &Workflow, rows: &Rows) -> Option<OffsetDateTime> {
    let first = rows.values().filter_map(|row| row.attempted_at).min();
    first.map(|at| at.max(workflow.created_at))
}

/// The jobs of a workflow, in its order.
pub(crate) fn jobs_of(workflow: &Workflow) -> Vec<JobId> {
    ids(&parts_of(workflow))
}

/// The jobs of parts.
pub(super) fn ids(parts: &[Part]) -> Vec<JobId> {
    parts.iter().flat_map(Part::jobs).map(|(job, _)| job).collect()
}
