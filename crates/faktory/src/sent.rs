//! A job as Faktory's clients read it.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uniqueue::json::tokens;
use uniqueue_remote::FetchedJob;

use crate::payload::{Kept, OWN, kept, sent_args};
use crate::reply::Refusal;

/// How long a job is reserved that does not say how long, in seconds.
pub(crate) const RESERVE_FOR: u64 = 1_800;

/// A fetched job with the Faktory members of its meta, which are read once.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) job: FetchedJob,
    /// `None`: the job was not pushed by a client of Faktory.
    pub(crate) kept: Option<Kept>,
    /// The id by which its worker knows it: that of the push, or else the job's own.
    pub(crate) jid: String,
}

impl From<FetchedJob> for Fetched {
    fn from(job: FetchedJob) -> Self {
        let kept = kept(&job.meta);
        let own = kept.as_ref().map(|kept| kept.jid.clone()).filter(|jid| !jid.is_empty());
        let jid = own.unwrap_or_else(|| job.run.id.to_string());
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

/// The JSON of a job for its worker, or for patterns. `is_waiting`: it has failed, and waits for its next attempt.
pub(crate) fn json(Fetched { job, kept, jid }: &Fetched, is_waiting: bool) -> Result<String, Refusal> {
    let own = kept.as_ref();
    let mut custom = job.meta.clone();
    custom.remove(OWN);
    let retry = own.and_then(|own| own.retry).unwrap_or(i64::from(job.max_attempts) - 1);
    let failure = job.errors.last().map(|error| {
        let retry_count = error.attempt.saturating_sub(1);
        Failure {
            retry_count,
            remaining: (retry - i64::from(retry_count)).max(0),
            failed_at: rfc3339(error.at),
            next_at: is_waiting.then(|| rfc3339(job.scheduled_at)),
            message: &error.error,
            errtype: error.error_type.as_deref().or(error.code.as_deref()).unwrap_or("unknown"),
            backtrace: error.details.as_ref().and_then(|details| details.get("backtrace")),
        }
    });
    let sent = Sent {
        jid,
        queue: job.queue.as_str(),
        jobtype: job.kind.as_str(),
        args: compact(&sent_args(&job.args)),
        created_at: own.and_then(|own| own.created_at.clone()).unwrap_or_else(|| rfc3339(job.created_at)),
        enqueued_at: rfc3339(job.scheduled_at),
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
