//! Events of jobs and workflows, as far as their rows tell them: of a job the insert, the latest start, every failed attempt and
//! the end, of a workflow the insert, the first start and the end.

use std::sync::Arc;

use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use uniqueue::JobState;

use crate::answer::{Answer, Answered};
use crate::door::Door;
use crate::paging::read_limit;
use crate::problem::Problem;
use crate::state::state_name;
use crate::store::{EventJob, JobProgress, NEWEST_BUT, Workflow};
use crate::times::text;
use crate::workflow;

/// The query of the list.
#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    types: Option<String>,
    queues: Option<String>,
    limit: Option<String>,
}

impl Wanted {
    /// Whether an event of this type is wanted.
    fn has(&self, of_type: &str) -> bool {
        self.types.as_deref().is_none_or(|types| types.split(',').any(|wanted| wanted.trim() == of_type))
    }
}

/// `GET /events`: of the newest 1,000 jobs and 100 workflows, the newest events first. A workflow is in no queue. Jobs of named
/// queues are looked for among the newest 10,000 jobs.
pub(crate) async fn list(State(door): State<Arc<Door>>, Query(wanted): Query<Wanted>) -> Answered {
    let limit = read_limit(wanted.limit.as_deref())? as usize;
    let mut events = Vec::new();
    let has_any = |types: &[&str]| types.iter().any(|of_type| wanted.has(of_type));
    if has_any(&JOB_EVENTS) {
        let queues =
            wanted.queues.as_ref().map(|queues| queues.split(',').map(|name| name.trim().to_owned()).collect());
        events.extend(door.store.reading(&door.reads).newest_jobs(queues).await?.iter().flat_map(events_of_job));
    }
    if wanted.queues.is_none() && has_any(&WORKFLOW_EVENTS) {
        events.extend(of_workflows(&door).await?);
    }
    events.retain(|event| wanted.has(event.of_type));
    // Of one moment the last event comes first, too.
    events.reverse();
    events.sort_by_key(|event| std::cmp::Reverse(event.at));
    let has_more = events.len() > limit;
    let shown: Vec<_> = events.into_iter().take(limit).map(Event::shown).collect();
    Ok(Answer::ok(json!({ "events": shown, "pagination": { "has_more": has_more } })))
}

/// The types of events.
const JOB_EVENTS: [&str; 7] =
    ["job.enqueued", "job.started", "job.failed", "job.retrying", "job.completed", "job.cancelled", "job.discarded"];
const WORKFLOW_EVENTS: [&str; 5] =
    ["workflow.created", "workflow.started", "workflow.completed", "workflow.failed", "workflow.cancelled"];

/// Something that happened.
struct Event {
    of_type: &'static str,
    at: OffsetDateTime,
    subject: String,
    /// Tells it from other events of its type and subject.
    number: u16,
    data: Value,
}

impl Event {
    fn shown(self) -> Value {
        let Self { of_type, at, subject, number, mut data } = self;
        data["timestamp"] = json!(text(at));
        json!({
            "specversion": "1.0", "id": format!("{subject}:{of_type}:{number}"), "type": of_type, "source": "uniqueue",
            "subject": subject, "time": text(at), "timestamp": text(at), "data": data,
        })
    }
}

fn events_of_job(row: &EventJob) -> Vec<Event> {
    let JobProgress { state, attempted_at } = row.progress;
    let mut events = Vec::new();
    let mut add = |of_type: &'static str, at: OffsetDateTime, attempt: u16, state: &str, more: Value| {
        let mut data = json!({
            "job_id": row.id, "job_type": row.kind, "queue": row.queue, "attempt": attempt, "state": state,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            data[name] = value.clone();
        }
        events.push(Event { of_type, at, subject: row.id.to_string(), number: attempt, data });
    };
    // The row does not tell the state after the insert once the job has gone on.
    let first = match state {
        JobState::Scheduled | JobState::Pending if attempted_at.is_none() => state_name(state),
        _ => "available",
    };
    add("job.enqueued", row.created_at, 0, first, json!({}));
    if let Some(at) = attempted_at {
        add("job.started", at, row.attempt, "active", json!({}));
    }
    for (place, error) in row.errors.iter().enumerate() {
        let is_last = place + 1 == row.errors.len() && state == JobState::Discarded;
        let after = if is_last { "discarded" } else { "retryable" };
        let about = json!({ "error": { "code": error.code, "message": error.error } });
        add("job.failed", error.at, error.attempt, after, about.clone());
        if !is_last {
            add("job.retrying", error.at, error.attempt, after, about);
        }
    }
    if let Some(at) = row.finalized_at {
        let of_type = match state {
            JobState::Completed => "job.completed",
            JobState::Cancelled => "job.cancelled",
            _ => "job.discarded",
        };
        let duration = attempted_at.map(|started_at| (at - started_at).whole_milliseconds().max(0));
        let duration = duration.and_then(|millis| u64::try_from(millis).ok());
        let about = json!({ "duration_ms": duration.unwrap_or_default() });
        add(of_type, at, row.attempt, state_name(state), about);
    }
    events
}

/// The events of the newest workflows. The end of one that has just ended is noted.
async fn of_workflows(door: &Door) -> Result<Vec<Event>, Problem> {
    let store = door.store.reading(&door.reads);
    let loaded = workflow::load_all(&store, store.workflows(&store.pool, NEWEST_BUT, &[]).await?).await?;
    Ok(loaded.iter().flat_map(|(workflow, began)| events_of_workflow(workflow, *began)).collect())
}

fn events_of_workflow(workflow: &Workflow, began: Option<OffsetDateTime>) -> Vec<Event> {
    let Workflow { id, kind, name, state, created_at, ended_at, .. } = workflow;
    let mut events = Vec::new();
    let mut add = |of_type: &'static str, at: OffsetDateTime, state: &str| {
        let data = json!({ "workflow_id": id, "workflow_type": kind, "workflow_name": name, "state": state });
        events.push(Event { of_type, at, subject: id.to_string(), number: 0, data });
    };
    add("workflow.created", *created_at, "pending");
    if let Some(at) = began {
        add("workflow.started", at, "running");
    }
    if let Some(at) = ended_at {
        let of_type = match state.as_str() {
            "completed" => "workflow.completed",
            "cancelled" => "workflow.cancelled",
            _ => "workflow.failed",
        };
        add(of_type, *at, state);
    }
    events
}
