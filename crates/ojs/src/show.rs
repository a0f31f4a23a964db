//! A job as OJS shows it.

use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use uniqueue::{AttemptError, JobRow, JobState};
use uniqueue_remote::FetchedJob;

use crate::details::{Details, MEMBER};
use crate::exact;
use crate::state::state_of;
use crate::times::text;

/// A stored job.
pub(crate) fn job(row: &JobRow) -> Value {
    let mut shown = members(&row.into(), row.state, row.attempted_at, &Details::of(&row.meta));
    let has_expired = row.errors.last().is_some_and(|last| last.code.as_deref() == Some("expired"));
    let ended = |state| row.finalized_at.filter(|_| row.state == state).map(text);
    shown.extend(given(json!({
        // A job that expired was never worked.
        "completed_at": ended(JobState::Completed).or_else(|| ended(JobState::Discarded).filter(|_| !has_expired)),
        "cancelled_at": ended(JobState::Cancelled), "discarded_at": ended(JobState::Discarded),
        "expires_at": row.expires_at.map(text), "result": row.output, "unique_key": row.unique_key,
        "replaced_by": row.replaced_by,
    })));
    Value::Object(shown)
}

/// A job that was just fetched.
pub(crate) fn fetched(job: &FetchedJob, details: &Details, started_at: Option<OffsetDateTime>) -> Map<String, Value> {
    let mut shown = members(job, JobState::Running, started_at, details);
    shown.insert("reserved_until".to_owned(), json!(job.reserved_until.map(text)));
    shown
}

fn members(
    job: &FetchedJob,
    state: JobState,
    started_at: Option<OffsetDateTime>,
    details: &Details,
) -> Map<String, Value> {
    let (created_at, scheduled_at) = (text(job.created_at), text(job.scheduled_at));
    let mut meta = job.meta.clone();
    meta.remove(MEMBER);
    let last = job.errors.last();
    let wait = last.map(|last| (job.scheduled_at - last.at).whole_milliseconds());
    let mut shown = details.unknown.clone();
    shown.extend(given(json!({
        "specversion": "1.0", "id": job.run.id, "type": job.kind, "queue": job.queue, "state": state_of(state, &job.errors),
        "args": exact::raw(&job.args), "meta": meta, "priority": job.priority, "attempt": job.attempt,
        "max_attempts": job.max_attempts, "created_at": created_at, "enqueued_at": created_at,
        "scheduled_at": scheduled_at, "started_at": started_at.map(text), "progress": job.progress,
        "retry": details.retry, "timeout_ms": details.timeout_ms, "visibility_timeout_ms": details.visibility_timeout_ms,
        "tags": details.tags, "metadata": details.metadata, "workflow_id": details.workflow,
        "errors": last.map(|_| job.errors.iter().map(error).collect::<Value>()),
        "error": last.filter(|_| state != JobState::Completed).map(error),
        "next_attempt_at": last.filter(|_| state == JobState::Retryable).map(|_| scheduled_at),
        "retry_delay_ms": wait.and_then(|millis| u64::try_from(millis).ok()),
    })));
    shown
}

/// The members of an object that have a value.
fn given(object: Value) -> impl Iterator<Item = (String, Value)> {
    let members = if let Value::Object(members) = object { members } else { Map::new() };
    members.into_iter().filter(|(_, value)| !value.is_null())
}

/// An error of an attempt.
fn error(error: &AttemptError) -> Value {
    let code = error.code.as_deref().unwrap_or("handler_error");
    let mut shown = json!({
        "code": code, "type": error.error_type.as_deref().unwrap_or(code), "message": error.error,
        "attempt": error.attempt, "occurred_at": text(error.at), "retryable": error.retryable.unwrap_or(true),
    });
    if let Some(details) = &error.details {
        shown["details"] = details.clone();
    }
    shown
}
