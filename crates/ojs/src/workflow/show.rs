//! A workflow as OJS shows it.

use serde_json::{Map, Value, json};
use uniqueue::{JobRow, JobState};

use super::state::{End, Jobs, Part, Progress, count_jobs, started_at};
use crate::state::state_of;
use crate::store::Workflow;
use crate::times;

/// A workflow with its parts, its counts, and where it failed its errors.
pub(super) fn shown(workflow: &Workflow, jobs: &Jobs) -> Value {
    let Workflow { id, kind, name, parts, state, created_at, ended_at, .. } = workflow;
    let mut shown = level(kind, parts, jobs);
    let mut put = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
    for (name, value) in [("id", json!(id)), ("type", json!(kind)), ("name", json!(name)), ("state", json!(state))] {
        put(name, value);
    }
    put("created_at", json!(times::text(*created_at)));
    if let Some(at) = ended_at {
        put("completed_at", json!(times::text(*at)));
    }
    let (total, completed, failed) = count_jobs(parts, &jobs.progress);
    put(
        "metadata",
        json!({
            "created_at": times::text(*created_at),
            "started_at": started_at(*created_at, &jobs.progress).map(times::text),
            "completed_at": ended_at.map(times::text),
            "job_count": total, "completed_count": completed, "failed_count": failed,
        }),
    );
    let dead = dead_jobs(parts, jobs);
    if !dead.is_empty() {
        put("failed_job_ids", dead.iter().map(|row| json!(row.id)).collect());
        put("errors", dead.iter().map(|row| error(row)).collect());
        let first = parts.iter().position(|part| matches!(part.end(&jobs.progress), Some(End::Failed)));
        if let Some(first) = first.filter(|_| kind == "chain") {
            put("failed_step_index", json!(first));
        }
    }
    Value::Object(shown)
}

/// The parts of a workflow, and their counts.
fn level(kind: &str, parts: &[Part], jobs: &Jobs) -> Map<String, Value> {
    let progress = Progress::of(parts, &jobs.progress);
    let plural = if ["chain", "graph"].contains(&kind) { "steps" } else { "jobs" };
    let items: Value = parts.iter().map(|part| item(part, jobs)).collect();
    Map::from_iter([
        (plural.to_owned(), items),
        (format!("{plural}_total"), json!(progress.total)),
        (format!("{plural}_completed"), json!(progress.completed)),
        (format!("{plural}_failed"), json!(progress.failed)),
    ])
}

fn item(part: &Part, jobs: &Jobs) -> Value {
    match part {
        Part::Job { name, role, job } => {
            let mut shown = json!({ "id": name, "job_id": job, "role": role });
            match jobs.rows.get(job) {
                Some(row) => {
                    shown["type"] = json!(row.kind.as_str());
                    shown["state"] = json!(state_of(row.state, &row.errors));
                    shown["started_at"] = json!(row.attempted_at.map(times::text));
                    shown["completed_at"] = json!(row.finalized_at.map(times::text));
                    shown["result"] = row.output.clone().unwrap_or_default();
                }
                // The retention of its queue deleted it.
                None => shown["state"] = json!("deleted"),
            }
            shown
        }
        Part::Workflow { name, role, kind, parts } => {
            let mut shown = level(kind, parts, jobs);
            let state = match part.end(&jobs.progress) {
                None => "running",
                Some(End::Completed) => "completed",
                Some(End::Failed) => "failed",
                Some(End::Cancelled) => "cancelled",
            };
            for (name, value) in
                [("id", json!(name)), ("type", json!(kind)), ("role", json!(role)), ("state", json!(state))]
            {
                shown.insert(name.to_owned(), value);
            }
            Value::Object(shown)
        }
    }
}

/// The discarded jobs, in the order of the workflow.
fn dead_jobs<'r>(parts: &[Part], jobs: &'r Jobs) -> Vec<&'r JobRow> {
    let rows = parts.iter().flat_map(Part::jobs).filter_map(|(job, _)| jobs.rows.get(&job));
    rows.filter(|row| row.state == JobState::Discarded).collect()
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
