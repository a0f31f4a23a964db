//! The name of the actor of a change, and the row of the log that it makes.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::filter::{JobFilter, JobSelection, Selected};
use crate::ident::JobId;
use crate::store::{LogEntry, Verb};

/// The most bytes of an actor's name.
const MAX_BYTES: usize = 200;

/// The actor of a change of jobs that names none.
pub(super) const ANONYMOUS: &str = "anonymous";

/// The most ids of a change that are logged.
const MAX_IDS: usize = 100;

/// The row of a change in the log.
pub(super) fn entry(actor: String, verb: &'static str, subject: Value) -> Result<LogEntry> {
    let problem = match actor.len() {
        0 => Some("must not be empty"),
        1..=MAX_BYTES if actor.contains('\0') => Some("must not contain NUL"),
        1..=MAX_BYTES => None,
        _ => Some("must not be longer than 200 bytes"),
    };
    match problem {
        Some(problem) => Err(Error::InvalidOption { option: "actor", problem, given: format!("{actor:?}") }),
        None => Ok(LogEntry { id: Uuid::now_v7(), actor, verb, subject }),
    }
}

/// The jobs of a change, and its new value.
pub(super) fn subject_of(jobs: &JobSelection, verb: Verb) -> Value {
    let mut subject = match &jobs.0 {
        Selected::Ids(ids) => self::ids(ids),
        Selected::Filter(filter) => json!({ "filter": conditions(filter) }),
    };
    match verb {
        Verb::Reschedule(at) => subject["scheduled_at"] = json!(rfc3339(at)),
        Verb::SetPriority(priority) => subject["priority"] = json!(priority),
        Verb::Cancel | Verb::Delete | Verb::Discard | Verb::Release | Verb::Retry { .. } | Verb::RetryGraph => {}
    }
    subject
}

/// Jobs by their ids, the first hundred.
pub(super) fn ids(ids: &[JobId]) -> Value {
    json!({ "ids": &ids[..ids.len().min(MAX_IDS)], "count": ids.len() })
}

/// The conditions of a filter that are set.
fn conditions(filter: &JobFilter) -> Value {
    let JobFilter {
        means_all: _,
        ids,
        except_ids,
        id_at_least,
        states,
        queues,
        kinds,
        unique_key,
        group,
        args,
        args_path,
        meta,
        priority,
        attempts_at_least,
        error_code,
        error_pattern,
        created,
        scheduled,
        attempted,
        finalized,
        failed,
        limit,
    } = filter;
    let mut conditions = json!({
        "ids": ids.as_ref().map(|ids| &ids[..ids.len().min(MAX_IDS)]),
        "except_ids": except_ids.as_ref().map(|ids| &ids[..ids.len().min(MAX_IDS)]),
        "id_at_least": id_at_least,
        "states": states.map(|states| states.iter().collect::<Vec<_>>()),
        "queues": queues,
        "kinds": kinds,
        "unique_key": unique_key,
        "group": group,
        "args": args,
        "args_path": args_path,
        "meta": meta,
        "priority": priority,
        "attempts_at_least": attempts_at_least,
        "error_code": error_code,
        "error_pattern": error_pattern,
        "created_after": created.after.map(rfc3339),
        "created_before": created.before.map(rfc3339),
        "scheduled_after": scheduled.after.map(rfc3339),
        "scheduled_before": scheduled.before.map(rfc3339),
        "attempted_after": attempted.after.map(rfc3339),
        "attempted_before": attempted.before.map(rfc3339),
        "finalized_after": finalized.after.map(rfc3339),
        "finalized_before": finalized.before.map(rfc3339),
        "failed_after": failed.after.map(rfc3339),
        "failed_before": failed.before.map(rfc3339),
        "limit": limit,
    });
    if let Some(members) = conditions.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    conditions
}

fn rfc3339(at: time::OffsetDateTime) -> String {
    at.format(&time::format_description::well_known::Rfc3339).unwrap_or_else(|_| at.to_string())
}
