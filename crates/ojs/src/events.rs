//! Events of jobs, as far as the rows of the jobs tell them: the insert, the latest start, every failed attempt and the end.

use std::sync::Arc;

use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use uniqueue::{JobFilter, JobRow, JobState};

use crate::answer::{Answer, Answered};
use crate::door::Door;
use crate::paging::read_limit;
use crate::times::text;

/// The most jobs whose events are looked through.
const JOBS: u32 = 1_000;

/// The query of the list.
#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    types: Option<String>,
    queues: Option<String>,
    limit: Option<String>,
}

/// `GET /events`: of the newest 1,000 jobs, the newest events first.
pub(crate) async fn list(State(door): State<Arc<Door>>, Query(wanted): Query<Wanted>) -> Answered {
    let limit = read_limit(wanted.limit.as_deref())? as usize;
    let mut filter = JobFilter::all();
    if let Some(queues) = &wanted.queues {
        filter = filter.queues(queues.split(',').map(str::trim));
    }
    let types: Option<Vec<_>> = wanted.types.as_deref().map(|types| types.split(',').map(str::trim).collect());
    let rows = door.client.jobs(filter).limit(JOBS).await?;
    let mut events: Vec<_> = rows.iter().flat_map(events_of).collect();
    events.retain(|(of_type, _, _)| types.as_ref().is_none_or(|types| types.contains(of_type)));
    events.sort_by_key(|(_, at, _)| std::cmp::Reverse(*at));
    let has_more = events.len() > limit;
    let shown: Vec<_> = events.into_iter().take(limit).map(|(_, _, event)| event).collect();
    Ok(Answer::ok(json!({ "events": shown, "pagination": { "has_more": has_more } })))
}

type Event = (&'static str, OffsetDateTime, Value);

fn events_of(row: &JobRow) -> Vec<Event> {
    let mut events = Vec::new();
    let mut add = |of_type: &'static str, at: OffsetDateTime, attempt: u16, more: Value| {
        let mut data = json!({
            "job_id": row.id, "job_type": row.kind.as_str(), "queue": row.queue.as_str(), "attempt": attempt,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            data[name] = value.clone();
        }
        let event = json!({
            "specversion": "1.0", "id": format!("{}:{of_type}:{attempt}", row.id), "type": of_type, "source": "uniqueue",
            "subject": row.id, "time": text(at), "data": data,
        });
        events.push((of_type, at, event));
    };
    add("job.enqueued", row.created_at, 0, json!({}));
    if let Some(at) = row.attempted_at {
        add("job.started", at, row.attempt, json!({}));
    }
    for error in &row.errors {
        add("job.failed", error.at, error.attempt, json!({ "error": { "code": error.code, "message": error.error } }));
    }
    if let Some(at) = row.finalized_at {
        let of_type = match row.state {
            JobState::Completed => "job.completed",
            JobState::Cancelled => "job.cancelled",
            _ => "job.discarded",
        };
        let duration = row.attempted_at.map(|started_at| (at - started_at).whole_milliseconds().max(0));
        let duration = duration.and_then(|millis| u64::try_from(millis).ok());
        add(of_type, at, row.attempt, json!({ "duration_ms": duration.unwrap_or_default() }));
    }
    events
}
