//! A job as Faktory's clients write it, and the job that it becomes.
//!
//! - `args` is an array. A single object in it is stored as that object, so that a worker in Rust reads its fields. It comes
//!   back as it was sent.
//! - Members of `custom` become the job's meta. The door keeps its own words in the member `faktory` of meta.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uniqueue::period::LONGEST;
use uniqueue::{Kind, NewJob, OnConflict, QueueName, UniquePolicy, Until};

use crate::reply::Refusal;

/// The member of meta with what Faktory knows of a job and uniqueue does not.
pub(crate) const OWN: &str = "faktory";

/// The shortest and the longest id of a job, in bytes.
const ID_BYTES: std::ops::RangeInclusive<usize> = 8..=128;

/// Retries of a job that does not say how many.
pub(crate) const RETRIES: i64 = 25;

/// The most retries: a job has at most 32,767 attempts.
const MAX_RETRIES: i64 = 32_766;

/// The limits of `reserve_for`, in seconds.
pub(crate) const RESERVE: std::ops::RangeInclusive<u64> = 60..=86_400;

/// A pushed job.
#[derive(Debug, Deserialize)]
pub(crate) struct Payload {
    #[serde(default)]
    pub(crate) jid: String,
    #[serde(default)]
    pub(crate) jobtype: String,
    args: Option<Box<RawValue>>,
    queue: Option<String>,
    at: Option<String>,
    created_at: Option<String>,
    retry: Option<i64>,
    reserve_for: Option<f64>,
    backtrace: Option<i64>,
    priority: Option<i64>,
    custom: Option<BTreeMap<String, Box<RawValue>>>,
}

/// The members of a pushed job that its meta keeps, under [`OWN`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Kept {
    #[serde(default)]
    pub(crate) jid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reserve_for: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backtrace: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created_at: Option<String>,
}

impl Payload {
    /// The job that is inserted. `has_defaults`: its kind is registered, and gives what is left out.
    pub(crate) fn job(self, has_defaults: bool) -> Result<NewJob, Refusal> {
        let Self { jid, jobtype, args, queue, at, created_at, retry, reserve_for, backtrace, priority, custom } = self;
        // Client libraries compare these texts with those of Faktory.
        if jid.len() < *ID_BYTES.start() {
            return Err(Refusal::new("jobs must have a reasonable jid parameter"));
        }
        if jid.len() > *ID_BYTES.end() || jid.chars().any(char::is_control) {
            return Err(Refusal::new(format!("invalid jid: must have 8 to 128 bytes: {jid:?}")));
        }
        if jobtype.is_empty() {
            return Err(Refusal::new("jobs must have a jobtype parameter"));
        }
        Kind::new(jobtype.as_str())?;
        let mut job = NewJob::from_json(jobtype, stored_args(args)?);
        match queue.filter(|queue| !queue.is_empty()) {
            Some(queue) => {
                QueueName::new(queue.as_str())?;
                job = job.queue(queue);
            }
            None if !has_defaults => job = job.queue(QueueName::DEFAULT),
            None => {}
        }
        if let Some(at) = at.filter(|at| !at.is_empty()) {
            job = job.scheduled_at(time("at", &at)?);
        }
        if let Some(priority) = priority.filter(|priority| *priority != 0) {
            if !(1..=9).contains(&priority) {
                return Err(Refusal::new(format!("invalid priority: must be 1 to 9: {priority}")));
            }
            // 5 is the middle, as 0 is here.
            job = job.priority(i16::try_from(priority - 5).unwrap_or(0));
        }
        if retry.is_some() || !has_defaults {
            job = job.max_attempts(attempts(retry.unwrap_or(RETRIES))?);
        }
        let custom = custom.unwrap_or_default().into_iter().map(read_member).collect::<Result<Map<_, _>, _>>()?;
        if custom.contains_key(OWN) {
            return Err(Refusal::new("invalid custom: the member faktory is the server's own"));
        }
        job = match unique(&custom)? {
            // A duplicate is answered, and not an error of the whole statement.
            Some(Some(policy)) => job.unique(policy.on_conflict(OnConflict::Ignore)),
            Some(None) => job.not_unique(),
            None => job,
        };
        job = match custom.get("expires_at") {
            None | Some(Value::Null) => job,
            Some(at) => job.expires_at(time("expires_at", at.as_str().unwrap_or(&at.to_string()))?),
        };
        let reserve_for = reserve_for.map(reserve).transpose()?;
        let backtrace = backtrace.map(|lines| lines.max(0).unsigned_abs()).filter(|lines| *lines > 0);
        let kept = Kept { jid, retry, reserve_for, backtrace, created_at };
        for (name, value) in custom {
            job = job.meta(name, value);
        }
        let kept = serde_json::to_value(kept).map_err(|error| Refusal::new(error.to_string()))?;
        Ok(job.meta(OWN, kept))
    }
}

/// Reads the members that the meta of a pushed job keeps. `None`: the job was not pushed by a client of Faktory.
pub(crate) fn kept(meta: &Map<String, Value>) -> Option<Kept> {
    Kept::deserialize(meta.get(OWN)?).ok()
}

/// The number of attempts that the member `retry` of a pushed job allows.
fn attempts(retry: i64) -> Result<u16, Refusal> {
    match retry {
        // Both allow one attempt. A failed job with 0 is gone, and a failed job with -1 is dead.
        -1 | 0 => Ok(1),
        1..=MAX_RETRIES => Ok(u16::try_from(retry + 1).unwrap_or(u16::MAX)),
        _ => Err(Refusal::new(format!("invalid retry: must be -1 to {MAX_RETRIES}: {retry}"))),
    }
}

fn reserve(seconds: f64) -> Result<u64, Refusal> {
    // A negative number becomes 0, and a fraction is cut off.
    let whole = seconds as u64;
    match whole > *RESERVE.end() {
        true => Err(Refusal::new("jobs cannot be reserved for more than one day")),
        false => Ok(whole.max(*RESERVE.start())),
    }
}

fn time(member: &str, given: &str) -> Result<OffsetDateTime, Refusal> {
    OffsetDateTime::parse(given, &Rfc3339)
        .map_err(|_| Refusal::new(format!("invalid timestamp for '{member}': {given:?}")))
}

/// A member of `custom`. Meta keeps numbers as doubles, so a number that a double would change is an error.
fn read_member((name, json): (String, Box<RawValue>)) -> Result<(String, Value), Refusal> {
    let value = uniqueue::json::parse_json(json.get());
    value.map(|value| (name.clone(), value)).map_err(|error| Refusal::new(format!("invalid custom: {name}: {error}")))
}

/// The args as they are stored.
fn stored_args(args: Option<Box<RawValue>>) -> Result<Box<RawValue>, Refusal> {
    let refuse = |given: &str| {
        let shown: String = given.chars().take(40).collect();
        Refusal::new(format!("invalid args: must be an array: {shown}"))
    };
    let Some(args) = args else { return Err(Refusal::new("jobs must have an args parameter")) };
    let items: Vec<&RawValue> = serde_json::from_str(args.get()).map_err(|_| refuse(args.get()))?;
    match items.as_slice() {
        [only] if only.get().starts_with('{') => Ok((*only).to_owned()),
        _ => Ok(args),
    }
}

/// The args as clients read them: an array.
pub(crate) fn sent_args(stored: &RawValue) -> Box<RawValue> {
    if stored.get().trim_start().starts_with('[') {
        return stored.to_owned();
    }
    // JSON in brackets is JSON.
    to_raw_value(&[stored]).unwrap_or_else(|_| stored.to_owned())
}

/// Reads the policy of the two members, which the meta keeps with the other members of `custom`. `Some(None)`: the client bypasses
/// uniqueness. `None`: it does not say, and the registered kind does, if there is one.
fn unique(custom: &Map<String, Value>) -> Result<Option<Option<UniquePolicy>>, Refusal> {
    let until = match custom.get("unique_until") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if text == "success" => None,
        Some(Value::String(text)) if text == "start" => Some(Until::Start),
        Some(other) => {
            return Err(Refusal::new(format!("invalid unique_until: must be \"success\" or \"start\": {other}")));
        }
    };
    let seconds = match custom.get("unique_for") {
        None => return Ok(None),
        Some(Value::Null) => return Ok(Some(None)),
        Some(given) => length(given)?,
    };
    let policy = UniquePolicy::faktory(seconds);
    Ok(Some(Some(match until {
        Some(until) => policy.until(until),
        None => policy,
    })))
}

fn length(given: &Value) -> Result<Duration, Refusal> {
    let seconds = given.as_f64().filter(|seconds| *seconds > 0.0 && *seconds <= LONGEST.as_secs_f64());
    // PostgreSQL's times have microseconds.
    let whole = seconds.map(|seconds| Duration::from_micros((seconds * 1e6).round() as u64));
    whole.filter(|whole| !whole.is_zero()).ok_or_else(|| {
        let problem = match seconds.is_none() && given.as_f64().is_some_and(|seconds| seconds > LONGEST.as_secs_f64()) {
            true => "must be at most 100 years",
            false => "must be a number of seconds above 0",
        };
        Refusal::new(format!("invalid unique_for: {problem}: {given}"))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn job(payload: Value) -> Result<NewJob, Refusal> {
        serde_json::from_value::<Payload>(payload).unwrap().job(false)
    }

    fn with(name: &str, value: Value) -> Value {
        let mut payload = json!({"jid": "12345678", "jobtype": "t", "args": []});
        payload[name] = value;
        payload
    }

    #[test]
    fn args_of_one_object_are_stored_as_the_object_and_come_back() {
        for (sent, stored) in [
            (json!([{"a": 1}]), json!({"a": 1})),
            (json!([]), json!([])),
            (json!([1, {"a": 1}]), json!([1, {"a": 1}])),
            (json!([[{"a": 1}]]), json!([[{"a": 1}]])),
        ] {
            let inserted = job(with("args", sent.clone())).unwrap();
            let text = inserted.args_json().unwrap();
            assert_eq!(serde_json::from_str::<Value>(text.get()).unwrap(), stored);
            assert_eq!(serde_json::from_str::<Value>(sent_args(text).get()).unwrap(), sent);
        }
        let scalar = to_raw_value(&7).unwrap();
        assert_eq!(sent_args(&scalar).get(), "[7]");
    }

    #[test]
    fn a_wrong_member_is_an_error_that_names_it() {
        for (name, value, text) in [
            ("jid", json!("short"), "jobs must have a reasonable jid parameter"),
            ("jobtype", json!(""), "jobs must have a jobtype parameter"),
            ("queue", json!("a\nb"), "invalid queue: must not hold control characters: \"a\\nb\""),
            ("args", json!({}), "invalid args: must be an array: {}"),
            ("args", json!(null), "jobs must have an args parameter"),
            ("at", json!("soon"), "invalid timestamp for 'at': \"soon\""),
            ("retry", json!(-2), "invalid retry: must be -1 to 32766: -2"),
            ("reserve_for", json!(86_401), "jobs cannot be reserved for more than one day"),
            ("priority", json!(10), "invalid priority: must be 1 to 9: 10"),
            ("custom", json!({"faktory": 1}), "invalid custom: the member faktory is the server's own"),
            ("custom", json!({"expires_at": 7}), "invalid timestamp for 'expires_at': \"7\""),
            ("custom", json!({"unique_for": "1h"}), "invalid unique_for: must be a number of seconds above 0: \"1h\""),
        ] {
            assert_eq!(job(with(name, value)).unwrap_err(), Refusal::new(text), "{name}");
        }
    }

    proptest! {
        #[test]
        fn args_come_back_as_they_were_sent(items in prop::collection::vec("[a-z\\[\\]{}\", \\\\]{0,8}", 0..4), wrap in any::<bool>()) {
            let items: Vec<Value> = items.into_iter().map(|item| if wrap { json!({ "m": item }) } else { json!(item) }).collect();
            let sent = Value::Array(items);
            let stored = stored_args(Some(to_raw_value(&sent).unwrap())).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(sent_args(&stored).get()).unwrap(), sent);
        }
    }
}

#[cfg(test)]
mod options_tests {
    use serde_json::json;

    use super::*;

    fn of(custom: Value) -> Result<Option<Option<UniquePolicy>>, Refusal> {
        let Value::Object(custom) = custom else { unreachable!() };
        unique(&custom)
    }

    #[test]
    fn unique_for_and_unique_until_are_read_as_the_page_has_them() {
        let ten_minutes = UniquePolicy::faktory(Duration::from_secs(600));
        let by = |policy: UniquePolicy| Ok(Some(Some(policy)));
        assert_eq!(of(json!({"unique_for": 600.0})), by(ten_minutes.clone()));
        assert_eq!(of(json!({"unique_for": 600, "unique_until": "success"})), by(ten_minutes.clone()));
        assert_eq!(of(json!({"unique_for": 600, "unique_until": "start"})), by(ten_minutes.until(Until::Start)));
        assert_eq!(of(json!({"unique_for": null})), Ok(Some(None)));
        assert_eq!(of(json!({"locale": "fr"})), Ok(None));
    }

    #[test]
    fn a_bad_time_or_event_is_an_error() {
        for (custom, text) in [
            (json!({"unique_for": 0}), "invalid unique_for: must be a number of seconds above 0: 0"),
            (json!({"unique_for": -1}), "invalid unique_for: must be a number of seconds above 0: -1"),
            (json!({"unique_for": 1e-9}), "invalid unique_for: must be a number of seconds above 0: 1e-9"),
            (json!({"unique_for": true}), "invalid unique_for: must be a number of seconds above 0: true"),
            (json!({"unique_for": 1e15}), "invalid unique_for: must be at most 100 years: 1000000000000000.0"),
            (json!({"unique_until": "end"}), "invalid unique_until: must be \"success\" or \"start\": \"end\""),
            (json!({"unique_for": 1, "unique_until": 1}), "invalid unique_until: must be \"success\" or \"start\": 1"),
        ] {
            assert_eq!(of(custom), Err(Refusal::new(text)));
        }
    }
}
