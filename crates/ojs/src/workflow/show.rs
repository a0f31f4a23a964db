//! A workflow as OJS shows it.

use serde_json::{Value, json};
use uniqueue::{JobId, JobRow, JobState};

use super::state::{Jobs, Part, Progress, Work, started_at};
use crate::state::state_of;
use crate::store::{JobProgress, Workflow};
use crate::times;

/// The rows of the jobs of a workflow, by their places. `None`: the job is deleted.
pub(super) type Rows<'a> = [Option<&'a JobRow>];

/// How far these jobs are.
pub(super) fn progress_of(rows: &Rows<'_>) -> Vec<Option<JobProgress>> {
    let of = |row: &JobRow| JobProgress { id: row.id, state: row.state, attempted_at: row.attempted_at };
    rows.iter().map(|row| row.map(of)).collect()
}

/// A workflow with its parts, its counts, and where it failed its errors.
pub(super) fn shown(workflow: &Workflow, rows: &Rows<'_>) -> Value {
    let Workflow { id, kind, name, parts, state, created_at, ended_at, .. } = workflow;
    let jobs = progress_of(rows);
    let all = Progress::of(parts.iter().flat_map(Part::jobs), &jobs);
    let started_at = started_at(*created_at, &jobs).map(times::text);
    let (created_at, ended_at) = (times::text(*created_at), ended_at.map(times::text));
    let level = Level { ids: &workflow.jobs, rows, jobs: &jobs };
    let mut shown = level.shown(kind, parts);
    shown["id"] = json!(id);
    shown["name"] = json!(name);
    shown["state"] = json!(state);
    shown["created_at"] = json!(created_at);
    if let Some(at) = &ended_at {
        shown["completed_at"] = json!(at);
    }
    shown["metadata"] = json!({
        "created_at": created_at, "started_at": started_at, "completed_at": ended_at,
        "job_count": all.total, "completed_count": all.completed, "failed_count": all.failed,
    });
    let dead: Vec<_> = rows.iter().flatten().filter(|row| row.state == JobState::Discarded).collect();
    if !dead.is_empty() {
        shown["failed_job_ids"] = dead.iter().map(|row| json!(row.id)).collect();
        shown["errors"] = dead.iter().map(|row| error(row)).collect();
        let first = parts.iter().position(|part| part.state(&jobs) == "failed");
        if let Some(first) = first.filter(|_| kind == "chain") {
            shown["failed_step_index"] = json!(first);
        }
    }
    shown
}

/// The jobs of a workflow by their places: their ids, their rows, and how far they are.
struct Level<'a> {
    ids: &'a [JobId],
    rows: &'a Rows<'a>,
    jobs: &'a Jobs,
}

impl Level<'_> {
    /// The parts of a workflow, or of one in it, and their counts.
    fn shown(&self, kind: &str, parts: &[Part]) -> Value {
        let Progress { total, completed, failed, .. } = Progress::of(parts, self.jobs);
        let plural = if ["chain", "graph"].contains(&kind) { "steps" } else { "jobs" };
        let mut shown = json!({ "type": kind, plural: parts.iter().map(|part| self.item(part)).collect::<Value>() });
        for (count, jobs) in [("total", total), ("completed", completed), ("failed", failed)] {
            shown[format!("{plural}_{count}")] = json!(jobs);
        }
        shown
    }

    fn item(&self, part: &Part) -> Value {
        let mut shown = match &part.work {
            Work::Workflow { kind, parts } => {
                let mut shown = self.shown(kind, parts);
                shown["state"] = json!(part.state(self.jobs));
                shown
            }
            Work::Job { job } => match self.rows.get(*job).copied().flatten() {
                Some(row) => json!({
                    "job_id": row.id, "type": row.kind.as_str(), "state": state_of(row.state, &row.errors),
                    "started_at": row.attempted_at.map(times::text), "completed_at": row.finalized_at.map(times::text),
                    "result": row.output,
                }),
                // The retention of its queue deleted it.
                None => json!({ "job_id": self.ids.get(*job), "state": "deleted" }),
            },
        };
        shown["id"] = json!(part.name);
        shown["role"] = json!(part.role);
        shown
    }
}

fn error(row: &JobRow) -> Value {
    let last = row.errors.last();
    json!({
        "job_id": row.id,
        "code": last.and_then(|last| last.code.as_deref()).unwrap_or("handler_error"),
        "message": last.map_or("", |last| &last.error),
        "attempt": last.map_or(row.attempt, |last| last.attempt),
    })
}
