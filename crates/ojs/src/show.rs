//! A job as OJS shows it.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use uniqueue::{AttemptError, JobId, JobRow, JobState};
use uniqueue_remote::FetchedJob;

use crate::details::{Details, MEMBER};
use crate::exact;
use crate::state::state_of;
use crate::times::text;

/// The parts of a job that both a row and a fetched job have.
struct Parts<'a> {
    id: JobId,
    kind: &'a str,
    queue: &'a str,
    state: JobState,
    args: &'a RawValue,
    meta: &'a Map<String, Value>,
    priority: i16,
    attempts: (u16, u16),
    created_at: OffsetDateTime,
    scheduled_at: OffsetDateTime,
    started_at: Option<OffsetDateTime>,
    errors: &'a [AttemptError],
    progress: Option<&'a Value>,
    details: &'a Details,
}

/// The parts of a row or of a fetched job, whose other fields have the same names.
macro_rules! parts {
    ($job:expr, $id:expr, $state:expr, $started_at:expr, $details:expr) => {
        parts(&Parts {
            id: $id,
            kind: $job.kind.as_str(),
            queue: $job.queue.as_str(),
            state: $state,
            args: &$job.args,
            meta: &$job.meta,
            priority: $job.priority,
            attempts: ($job.attempt, $job.max_attempts),
            created_at: $job.created_at,
            scheduled_at: $job.scheduled_at,
            started_at: $started_at,
            errors: &$job.errors,
            progress: $job.progress.as_ref(),
            details: $details,
        })
    };
}

/// A stored job.
pub(crate) fn job(row: &JobRow) -> Value {
    let mut shown = parts!(row, row.id, row.state, row.attempted_at, &Details::of(&row.meta));
    let has_expired = row.errors.last().is_some_and(|last| last.code.as_deref() == Some("expired"));
    let mut put = |name: &str, value: Option<Value>| {
        shown.extend(value.map(|value| (name.to_owned(), value)));
    };
    let ended = |state| row.finalized_at.filter(|_| row.state == state).map(|at| json!(text(at)));
    let completed_at = match row.state {
        JobState::Completed => ended(JobState::Completed),
        // A job that expired was never worked.
        JobState::Discarded if !has_expired => ended(JobState::Discarded),
        _ => None,
    };
    put("completed_at", completed_at);
    put("cancelled_at", ended(JobState::Cancelled));
    put("discarded_at", ended(JobState::Discarded));
    put("expires_at", row.expires_at.map(|at| json!(text(at))));
    put("result", row.output.clone());
    put("unique_key", row.unique_key.as_ref().map(|key| json!(key)));
    put("replaced_by", row.replaced_by.map(|id| json!(id)));
    Value::Object(shown)
}

/// A job that was just fetched.
pub(crate) fn fetched(job: &FetchedJob, details: &Details, started_at: OffsetDateTime) -> Map<String, Value> {
    let mut shown = parts!(job, job.run.id, JobState::Running, Some(started_at), details);
    shown.insert("reserved_until".to_owned(), json!(text(job.reserved_until)));
    shown
}

fn parts(job: &Parts<'_>) -> Map<String, Value> {
    let details = job.details;
    let mut shown = details.unknown.clone();
    let mut put = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
    let meta: Map<_, _> =
        job.meta.iter().filter(|(name, _)| *name != MEMBER).map(|(n, v)| (n.clone(), v.clone())).collect();
    let (attempt, max_attempts) = job.attempts;
    put("specversion", json!("1.0"));
    put("id", json!(job.id));
    put("type", json!(job.kind));
    put("queue", json!(job.queue));
    put("state", json!(state_of(job.state, job.errors)));
    put("args", exact::raw(job.args));
    put("meta", Value::Object(meta));
    put("priority", json!(job.priority));
    put("attempt", json!(attempt));
    put("max_attempts", json!(max_attempts));
    put("created_at", json!(text(job.created_at)));
    put("enqueued_at", json!(text(job.created_at)));
    put("scheduled_at", json!(text(job.scheduled_at)));
    for (name, value) in [
        ("started_at", job.started_at.map(|at| json!(text(at)))),
        ("progress", job.progress.cloned()),
        ("retry", details.retry.clone().map(Value::Object)),
        ("timeout_ms", details.timeout_ms.map(Value::from)),
        ("visibility_timeout_ms", details.visibility_timeout_ms.map(Value::from)),
        ("tags", details.tags.clone().map(Value::Array)),
        ("metadata", details.metadata.clone().map(Value::Object)),
        ("workflow_id", details.workflow.map(|id| json!(id))),
    ] {
        if let Some(value) = value {
            put(name, value);
        }
    }
    if !job.errors.is_empty() {
        put("errors", job.errors.iter().map(error).collect());
    }
    if let Some(last) = job.errors.last() {
        if job.state != JobState::Completed {
            put("error", error(last));
        }
        if job.state == JobState::Retryable {
            put("next_attempt_at", json!(text(job.scheduled_at)));
        }
        if let Ok(wait) = u64::try_from((job.scheduled_at - last.at).whole_milliseconds()) {
            put("retry_delay_ms", json!(wait));
        }
    }
    shown
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
