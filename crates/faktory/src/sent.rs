//! A job as Faktory's clients read it.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uniqueue::json::tokens;
use uniqueue::{AttemptError, JobRow};
use uniqueue_remote::FetchedJob;

use crate::payload::{Kept, OWN, jid, kept, sent_args};
use crate::reply::Refusal;

/// How long a job is reserved that does not say how long, in seconds.
pub(crate) const RESERVE_FOR: u64 = 1_800;

/// A fetched job with the Faktory members of its meta, which are read once.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) job: FetchedJob,
    /// `None`: the job was not pushed by a client of Faktory.
    pub(crate) kept: Option<Kept>,
    /// The id by which its worker knows it.
    pub(crate) jid: String,
}

impl From<FetchedJob> for Fetched {
    fn from(job: FetchedJob) -> Self {
        let kept = kept(&job.meta);
        let jid = jid(job.run.id, kept.as_ref());
        Self { job, kept, jid }
    }
}

/// The JSON of a job. The order of its members is Faktory's, for patterns.
#[derive(Serialize)]
struct Sent<'a> {
    jid: &'a str,
    queue: &'a str,
    jobtype: &'a str,
    args: Box<RawValue>,
    created_at: String,
    enqueued_at: String,
    reserve_for: u64,
    retry: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    backtrace: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failure<'a>>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    custom: Map<String, Value>,
}

#[derive(Serialize)]
struct Failure<'a> {
    retry_count: u16,
    remaining: i64,
    failed_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<String>,
    message: &'a str,
    errtype: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    backtrace: Option<&'a Value>,
}

/// The columns that a fetched job and a row of a list share.
struct Source<'a> {
    jid: &'a str,
    kept: Option<&'a Kept>,
    queue: &'a str,
    kind: &'a str,
    args: &'a RawValue,
    meta: &'a Map<String, Value>,
    created_at: OffsetDateTime,
    scheduled_at: OffsetDateTime,
    max_attempts: u16,
    errors: &'a [AttemptError],
    is_waiting: bool,
}

/// The source of a row or of a fetched job, whose other fields have the same names.
macro_rules! source {
    ($job:expr, $jid:expr, $kept:expr, $is_waiting:expr) => {
        Source {
            jid: $jid,
            kept: $kept,
            queue: $job.queue.as_str(),
            kind: $job.kind.as_str(),
            args: &$job.args,
            meta: &$job.meta,
            created_at: $job.created_at,
            scheduled_at: $job.scheduled_at,
            max_attempts: $job.max_attempts,
            errors: &$job.errors,
            is_waiting: $is_waiting,
        }
    };
}

/// The JSON of a job for the worker that fetched it.
pub(crate) fn of_fetched(fetched: &Fetched) -> Result<String, Refusal> {
    let Fetched { job, kept, jid } = fetched;
    json(&source!(job, jid, kept.as_ref(), false))
}

/// The JSON of a job that waits or is dead, for patterns.
pub(crate) fn of_row(row: &JobRow) -> Result<String, Refusal> {
    let kept = kept(&row.meta);
    json(&source!(row, &jid(row.id, kept.as_ref()), kept.as_ref(), row.finalized_at.is_none()))
}

fn json(source: &Source<'_>) -> Result<String, Refusal> {
    let own = source.kept;
    let mut custom = source.meta.clone();
    custom.remove(OWN);
    let retry = own.and_then(|own| own.retry).unwrap_or(i64::from(source.max_attempts) - 1);
    let failure = source.errors.last().map(|error| {
        let retry_count = error.attempt.saturating_sub(1);
        Failure {
            retry_count,
            remaining: (retry - i64::from(retry_count)).max(0),
            failed_at: rfc3339(error.at),
            next_at: source.is_waiting.then(|| rfc3339(source.scheduled_at)),
            message: &error.error,
            errtype: error.error_type.as_deref().or(error.code.as_deref()).unwrap_or("unknown"),
            backtrace: error.details.as_ref().and_then(|details| details.get("backtrace")),
        }
    });
    let sent = Sent {
        jid: source.jid,
        queue: source.queue,
        jobtype: source.kind,
        args: compact(&sent_args(source.args)),
        created_at: own.and_then(|own| own.created_at.clone()).unwrap_or_else(|| rfc3339(source.created_at)),
        enqueued_at: rfc3339(source.scheduled_at),
        reserve_for: own.and_then(|own| own.reserve_for).unwrap_or(RESERVE_FOR),
        retry,
        backtrace: own.and_then(|own| own.backtrace),
        failure,
        custom,
    };
    serde_json::to_string(&sent).map_err(|error| Refusal::new(format!("The job cannot be sent: {error}")))
}

/// JSON text without white space, every digit as it was.
fn compact(json: &RawValue) -> Box<RawValue> {
    let text = tokens(json.get()).map(|(_, token)| token).filter(|token| !token.trim_ascii().is_empty()).collect();
    RawValue::from_string(text).unwrap_or_else(|_| json.to_owned())
}

fn rfc3339(at: OffsetDateTime) -> String {
    at.format(&Rfc3339).unwrap_or_else(|_| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_json_keeps_texts_and_digits() {
        let given = r#"[ {"a b": "c \" d", "n": 12345678901234567890123} , 1.50 ]"#;
        let raw = RawValue::from_string(given.to_owned()).unwrap();
        assert_eq!(compact(&raw).get(), r#"[{"a b":"c \" d","n":12345678901234567890123},1.50]"#);
    }
}
