//! A job document of a request as a job to insert.

use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};
use uniqueue::{JobId, MAX_NAME_BYTES, NewJob, UniquePolicy};
use uniqueue_admin::Given;
use uuid::{Uuid, Variant};

use crate::details::{Details, MEMBER, Results};
use crate::exact::{self, Exact};
use crate::fields::{Fields, wrong};
use crate::problem::Problem;
use crate::rate_limit::QueueRate;
use crate::retry::RetryPolicy;
use crate::times;

/// The members that this version of OJS knows, at the top of a document. Members that the server sets are ignored.
const KNOWN: &str = "specversion id type queue args meta priority timeout timeout_ms scheduled_at delay_until expires_at retry \
     unique visibility_timeout visibility_timeout_ms tags options pending rate_limit metadata depends_on state \
     attempt max_attempts created_at enqueued_at started_at completed_at cancelled_at discarded_at result error \
     errors next_attempt_at retry_delay_ms parent_results workflow_id progress unique_key replaced_by callbacks";

/// The words for priorities, as the conformance suites have them.
const NAMED_PRIORITIES: [(&str, i16); 3] = [("HIGH", 10), ("NORMAL", 0), ("LOW", -10)];

/// A job of a request.
pub(crate) struct Envelope {
    /// Without its id.
    pub(crate) job: NewJob,
    pub(crate) id: JobId,
    /// The rate that the job asks for its queue.
    pub(crate) rate: Option<QueueRate>,
    pub(crate) has_retry: bool,
}

/// The workflow of a job.
#[derive(Default)]
pub(crate) struct OfWorkflow<'a> {
    pub(crate) id: Option<Uuid>,
    /// The options of the workflow.
    pub(crate) options: Option<&'a Map<String, Value>>,
    /// See [`Details::parents`].
    pub(crate) parents: Vec<Results>,
}

/// Reads a document.
pub(crate) fn read(document: &Map<String, Value>) -> Result<Envelope, Problem> {
    read_of(document, OfWorkflow::default())
}

/// Reads the document of a job of a workflow.
pub(crate) fn read_of(document: &Map<String, Value>, workflow: OfWorkflow<'_>) -> Result<Envelope, Problem> {
    let fields = Fields::new(document, workflow.options)?;
    let (kind, id) = (kind(document)?, id(document)?);
    let args = to_raw_value(&Exact(args(document, fields)?)).map_err(|error| Problem::invalid(error.to_string()))?;
    let mut job = NewJob::from_json(kind, args);
    let queue = fields.text("queue")?.unwrap_or("default");
    if !is_queue(queue) {
        let must_be = "lower-case letters, digits, hyphens, underscores and dots, beginning with a letter or digit";
        return Err(wrong("queue", must_be, &json!(queue)));
    }
    job = job.queue(queue);
    let retry = fields.object("retry")?;
    job = job
        .given(fields.get("priority").map(priority).transpose()?, NewJob::priority)
        .given(retry.map(RetryPolicy::read).transpose()?, |job, policy| job.max_attempts(policy.max_attempts))
        .given(fields.object("unique")?.map(read_unique).transpose()?, NewJob::unique);
    job = times::apply(job, fields)?;
    for (name, value) in fields.object("meta")?.into_iter().flatten() {
        if name == MEMBER {
            return Err(Problem::invalid(format!("invalid meta: the name is the server's own: {MEMBER:?}")));
        }
        job = job.meta(name, exact::plain("meta", value)?);
    }
    let millis = |length: std::time::Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let unknown = document.iter().filter(|(name, _)| !KNOWN.split(' ').any(|known| known == *name));
    let details = Details {
        retry: retry.cloned(),
        timeout_ms: fields.length("timeout_ms", "timeout")?.map(millis),
        visibility_timeout_ms: fields.length("visibility_timeout_ms", "visibility_timeout")?.map(millis),
        tags: fields.array("tags")?.cloned(),
        metadata: fields.object("metadata")?.cloned(),
        unknown: unknown.map(|(name, value)| (name.clone(), value.clone())).collect(),
        workflow: workflow.id,
        parents: workflow.parents,
    };
    if details != Details::default() {
        let details = serde_json::to_value(details).map_err(|error| Problem::invalid(error.to_string()))?;
        job = job.meta(MEMBER, exact::plain("options", &details)?);
    }
    let rate = fields.object("rate_limit")?.map(|limit| QueueRate::read(queue, limit)).transpose()?;
    Ok(Envelope { job, id, rate, has_retry: retry.is_some() })
}

fn kind(document: &Map<String, Value>) -> Result<&str, Problem> {
    match document.get("type") {
        None | Some(Value::Null) => Err(Problem::missing("type").detail("validation", "required")),
        Some(Value::String(kind)) if is_kind(kind) => Ok(kind),
        Some(other) => {
            let must_be =
                "words of lower-case letters, digits, hyphens and underscores that begin with a letter, joined by dots";
            Err(wrong("type", must_be, other))
        }
    }
}

/// A priority: a number, or a word for one.
fn priority(given: &Value) -> Result<i16, Problem> {
    let number = match given.as_str() {
        Some(word) => {
            NAMED_PRIORITIES.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, number)| *number)
        }
        None => {
            given.as_i64().filter(|number| (-100..=100).contains(number)).and_then(|number| i16::try_from(number).ok())
        }
    };
    number.ok_or_else(|| wrong("priority", "a whole number from -100 to 100, or HIGH, NORMAL or LOW", given))
}

fn is_kind(kind: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_lowercase())
            && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
    };
    kind.len() <= MAX_NAME_BYTES && kind.split('.').all(is_word)
}

fn is_queue(queue: &str) -> bool {
    queue.len() <= MAX_NAME_BYTES
        && queue.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && queue.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.'))
}

/// The args: an array. Beside a unique policy also an object, whose members the policy can name.
fn args<'a>(document: &'a Map<String, Value>, fields: Fields<'_>) -> Result<&'a Value, Problem> {
    match document.get("args") {
        None => Err(Problem::missing("args").detail("validation", "required")),
        Some(args @ Value::Array(_)) => Ok(args),
        Some(args @ Value::Object(_)) if fields.get("unique").is_some() => Ok(args),
        Some(other) => Err(wrong("args", "an array, or beside a unique policy an object", other)),
    }
}

fn id(document: &Map<String, Value>) -> Result<JobId, Problem> {
    match document.get("id") {
        None | Some(Value::Null) => Ok(JobId::generate()),
        Some(given) => given.as_str().and_then(read_id).ok_or_else(|| wrong("id", "a UUIDv7 in lower case", given)),
    }
}

/// Reads a UUIDv7 in its one form.
fn read_id(text: &str) -> Option<JobId> {
    let id = Uuid::try_parse(text).ok()?;
    let is_v7 = id.get_version_num() == 7 && id.get_variant() == Variant::RFC4122;
    (is_v7 && id.hyphenated().to_string() == text).then(|| JobId::from(id))
}

/// Reads the id of a path or of a worker's report. A text that is no id names no job.
pub(crate) fn known_id(what: &str, text: &str) -> Result<JobId, Problem> {
    Uuid::try_parse(text).map(JobId::from).map_err(|_| Problem::not_found(what, text))
}

/// The dimensions of a policy.
const DIMENSIONS: [&str; 4] = ["type", "queue", "args", "meta"];

/// Reads a unique policy. `key` is another name of `keys`. Where it names members of the args, as in the JSON format of OJS, it means
/// `keys` `["type", "args"]` with these `args_keys`.
fn read_unique(document: &Map<String, Value>) -> Result<UniquePolicy, Problem> {
    let mut document = document.clone();
    document.retain(|_, value| !value.is_null());
    if matches!(document.get("key"), Some(Value::Array(_))) && !document.contains_key("keys") {
        let key = document.remove("key").unwrap_or_default();
        let is_dimension = |name: &Value| name.as_str().is_some_and(|name| DIMENSIONS.contains(&name));
        if key.as_array().is_some_and(|names| names.iter().all(is_dimension)) {
            document.insert("keys".to_owned(), key);
        } else {
            document.insert("keys".to_owned(), json!(["type", "args"]));
            document.insert("args_keys".to_owned(), key);
        }
    }
    let refused = |error: uniqueue::Error| Problem::from(error).detail("field", "unique");
    UniquePolicy::from_ojs(&Value::Object(document)).map_err(refused)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A document with every member that is read.
    const FULL: &str = r#"{"id":"019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f","type":"a.b","args":[{"n":1}],"meta":{"m":[null]},"x":1e3,
        "options":{"queue":"q","priority":-7,"timeout_ms":30000,"delay_until":"2026-02-12T10:30:00Z","expires_at":"+PT1H2.5S",
        "retry":{"max_attempts":3,"initial_interval":"PT1S","backoff_coefficient":2.5,"max_interval":"P1D","jitter":false,
        "non_retryable_errors":["a.*"],"on_exhaustion":"discard","backoff_strategy":"linear"},"tags":["t"],
        "unique":{"keys":["type","args"],"args_keys":["n"],"period":"PT1H","on_conflict":"ignore","states":["active"]},
        "visibility_timeout_ms":1000,"rate_limit":{"limit":5,"period":"PT1M"},"metadata":{"a":1}}}"#;

    #[test]
    fn a_full_document_is_read() {
        assert!(read(&crate::body::read(FULL.as_bytes()).unwrap()).is_ok());
    }

    proptest! {
        #[test]
        fn no_damaged_document_panics(damage in prop::collection::vec((0..FULL.len(), any::<u8>()), 1..4)) {
            let mut bytes = FULL.as_bytes().to_vec();
            for (place, byte) in damage {
                bytes[place] = byte;
            }
            if let Ok(document) = crate::body::read(&bytes) {
                let _ = read(&document);
            }
        }
    }

    #[test]
    fn types_and_queues_have_one_alphabet_each() {
        assert!(["a", "email.send", "dlq.test.list-first", "a_1.b-2"].iter().all(|kind| is_kind(kind)));
        assert!(!["", "A", "a.", ".a", "1a", "a..b", "a b", "é", "a.1"].iter().any(|kind| is_kind(kind)));
        assert!(["default", "0", "a-b.c_d"].iter().all(|queue| is_queue(queue)));
        assert!(!["", "-a", "A", "a b", "_a"].iter().any(|queue| is_queue(queue)));
    }

    #[test]
    fn an_id_is_a_uuid_of_version_7_in_lower_case() {
        assert!(read_id("019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f").is_some());
        for wrong in [
            "",
            "550e8400-e29b-41d4-a716-446655440000",
            "019461A8-1A2B-7C3D-8E4F-5A6B7C8D9E0F",
            "019461a81a2b7c3d8e4f5a6b7c8d9e0f",
        ] {
            assert!(read_id(wrong).is_none(), "{wrong}");
        }
    }
}

#[cfg(test)]
mod unique_tests {
    use super::*;

    fn policy(document: Value) -> UniquePolicy {
        read_unique(document.as_object().unwrap()).unwrap()
    }

    #[test]
    fn key_is_keys_or_names_members_of_the_args() {
        assert_eq!(policy(json!({"key": ["type", "queue"]})), policy(json!({"keys": ["type", "queue"]})));
        let by_members = policy(json!({"keys": ["type", "args"], "args_keys": ["to", "template"]}));
        assert_eq!(policy(json!({"key": ["to", "template"]})), by_members);
        assert!(read_unique(json!({"keys": ["meta"]}).as_object().unwrap()).is_err());
    }
}
