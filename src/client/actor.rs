//! The name of the actor of a change, and the row of the log that it makes.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::store::{LogEntry, Verb};
use crate::words::filter::{JobFilter, JobSelection, Selected};
use crate::words::ident::JobId;

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
        Selected::Filter(filter) => json!({ "filter": shortened(filter) }),
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

/// A filter. Of its lists of ids the first hundred.
fn shortened(filter: &JobFilter) -> JobFilter {
    let mut filter = filter.clone();
    for ids in [&mut filter.0.ids, &mut filter.0.except_ids].into_iter().flatten() {
        ids.truncate(MAX_IDS);
    }
    filter
}

pub(super) fn rfc3339(at: time::OffsetDateTime) -> String {
    at.format(&time::format_description::well_known::Rfc3339).unwrap_or_else(|_| at.to_string())
}
