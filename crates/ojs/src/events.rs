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
use crate::fields::page_limit;
use crate::problem::Problem;
use crate::state::state_name;
use crate::store::{EventJob, JobProgress, NEWEST, Workflow};
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
    /// Whether the subscriber asked for a type of events that begins with this prefix.
    fn has_any_of(&self, prefix: &str) -> bool {
        self.types.as_deref().is_none_or(|types| types.split(',').any(|wanted| wanted.trim().starts_with(prefix)))
    }

    /// Whether the subscriber asked for events of this type.
    fn has(&self, event: &Event) -> bool {
        self.types.as_deref().is_none_or(|types| types.split(',').any(|wanted| wanted.trim() == event.of_type))
    }
}

/// `GET /events`: of the newest 1,000 jobs and 100 workflows, the newest events first. A workflow is in no queue. Jobs of named
/// queues are looked for among the newest 10,000 jobs.
pub(crate) async fn list(State(door): State<Arc<Door>>, Query(wanted): Query<Wanted>) -> Answered {
    let limit = page_limit(wanted.limit.as_deref())? as usize;
    let mut events = Vec::new();
    if wanted.has_any_of("job.") {
        let queues =
            wanted.queues.as_ref().map(|queues| queues.split(',').map(|name| name.trim().to_owned()).collect());
        events.extend(door.store.reading(&door.reads).newest_jobs(queues).await?.iter().flat_map(events_of_job));
    }
    if wanted.queues.is_none() && wanted.has_any_of("workflow.") {
        events.extend(of_workflows(&door).await?);
    }
    events.retain(|event| wanted.has(event));
    // Of one moment the last event comes first, too.
    events.reverse();
    events.sort_by_key(|event| std::cmp::Reverse(event.at));
    let has_more = events.len() > limit;
    let shown: Vec<_> = events.into_iter().take(limit).map(Event::shown).collect();
    Ok(Answer::ok(json!({ "events": shown, "pagination": { "has_more": has_more } })))
}

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
    let JobProgress { id, state, attempted_at } = row.progress;
    let event = |of_type: &'static str, at: OffsetDateTime, attempt: u16, state: &str| {
        let data = json!({
            "job_id": id, "job_type": row.kind, "queue": row.queue, "attempt": attempt, "state": state,
        });
        Event { of_type, at, subject: id.to_string(), number: attempt, data }
    };
    // The row does not tell the state after the insert once the job has gone on.
    let first = match state {
        JobState::Scheduled | JobState::Pending if attempted_at.is_none() => state_name(state),
        _ => "available",
    };
    let mut events = vec![event("job.enqueued", row.created_at, 0, first)];
    events.extend(attempted_at.map(|at| event("job.started", at, row.attempt, "active")));
    for (place, error) in row.errors.iter().enumerate() {
        let is_last = place + 1 == row.errors.len() && state == JobState::Discarded;
        let (types, after): (&[_], _) =
            if is_last { (&["job.failed"], "discarded") } else { (&["job.failed", "job.retrying"], "retryable") };
        for of_type in types {
            let mut event = event(of_type, error.at, error.attempt, after);
            event.data["error"] = json!({ "code": error.code, "message": error.error });
            events.push(event);
        }
    }
    if let Some(at) = row.finalized_at {
        let of_type = match state {
            JobState::Completed => "job.completed",
            JobState::Cancelled => "job.cancelled",
            _ => "job.discarded",
        };
        let mut event = event(of_type, at, row.attempt, state_name(state));
        let millis = attempted_at.map_or(0, |started_at| (at - started_at).whole_milliseconds().max(0));
        event.data["duration_ms"] = json!(u64::try_from(millis).unwrap_or_default());
        events.push(event);
    }
    events
}

/// The events of the newest workflows. The end of one that has just ended is noted.
async fn of_workflows(door: &Door) -> Result<Vec<Event>, Problem> {
    let store = door.store.reading(&door.reads);
    let loaded = workflow::load_all(&store, store.workflows(NEWEST, json!({})).await?).await?;
    Ok(loaded.iter().flat_map(|(workflow, began)| events_of_workflow(workflow, *began)).collect())
}

fn events_of_workflow(workflow: &Workflow, began: Option<OffsetDateTime>) -> Vec<Event> {
    let Workflow { id, kind, name, state, created_at, ended_at, .. } = workflow;
    let event = |of_type: &'static str, at: OffsetDateTime, state: &str| {
        let data = json!({ "workflow_id": id, "workflow_type": kind, "workflow_name": name, "state": state });
        Event { of_type, at, subject: id.to_string(), number: 0, data }
    };
    let ended = match state.as_str() {
        "completed" => "workflow.completed",
        "cancelled" => "workflow.cancelled",
        _ => "workflow.failed",
    };
    let created = event("workflow.created", *created_at, "pending");
    let started = began.map(|at| event("workflow.started", at, "running"));
    let ended = ended_at.map(|at| event(ended, at, state));
    [created].into_iter().chain(started).chain(ended).collect()
}
