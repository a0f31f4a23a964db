//! The answer of a program to its job, as an outcome.

use serde_json::Map;
use uniqueue::{BoxError, JobError, Outcome};

use crate::prelude::*;

/// The members of an object that says how the attempt ended. An object with any other member is an output.
const MEMBERS: [&str; 12] = [
    "output",
    "error",
    "retry_after",
    "code",
    "type",
    "retryable",
    "details",
    "snooze",
    "hold_queue",
    "hold_group",
    "cancel",
    "discard",
];

/// The optional members of an error.
const OF_ERROR: [&str; 5] = ["retry_after", "code", "type", "retryable", "details"];

/// The optional members of a discard.
const OF_DISCARD: [&str; 3] = ["code", "type", "details"];

/// Reads an answer: an output, or an object that says how the attempt ended. `Err` is a failed attempt.
pub(super) fn outcome(answer: Value) -> Result<Outcome, BoxError> {
    match answer {
        Value::Null => Ok(Outcome::complete()),
        Value::Object(members)
            if !members.is_empty() && members.keys().all(|name| MEMBERS.contains(&name.as_str())) =>
        {
            ended(&members)
        }
        output => Ok(Outcome::Complete { output: Some(output) }),
    }
}

/// Reads a line of a long-lived process. `Some`: the answer to the job with this id, as [`outcome`] reads it. `None`: other
/// JSON, such as a line of a log. `Err` is a failed attempt.
pub(super) fn to_job(id: &str, line: &[u8]) -> Result<Option<Value>, BoxError> {
    let Ok(said) = serde_json::from_slice(line) else {
        let shown = String::from_utf8_lossy(&line[..line.len().min(200)]).trim_end().to_owned();
        return Err(format!("the program's answer is not a line of JSON: {shown}").into());
    };
    let Value::Object(mut members) = said else { return Ok(None) };
    if members.get("id").and_then(Value::as_str) != Some(id) {
        return Ok(None);
    }
    members.remove("id");
    match members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        Some(unknown) => Err(format!("the program's answer has an unknown member: {unknown}").into()),
        None if members.is_empty() => Ok(Some(Value::Null)),
        None => Ok(Some(Value::Object(members))),
    }
}

fn ended(members: &Map<String, Value>) -> Result<Outcome, BoxError> {
    let mut given: Vec<_> = members.iter().map(|(name, value)| (name.as_str(), value)).collect();
    given.sort_unstable_by_key(|(name, _)| *name);
    let has_only = |name: &str, more: &[&str]| {
        members.contains_key(name) && members.keys().all(|member| member == name || more.contains(&member.as_str()))
    };
    match given.as_slice() {
        [("output", output)] => Ok(Outcome::Complete { output: Some((*output).clone()) }),
        _ if has_only("error", &OF_ERROR) => Err(failure("error", members)?.into()),
        [("retry_after", after)] => {
            Ok(Outcome::retry(duration("retry_after", after)?, "the program asked for a retry"))
        }
        [("snooze", after)] => Ok(Outcome::snooze(duration("snooze", after)?)),
        [("hold_queue", after)] => Ok(Outcome::hold_queue(duration("hold_queue", after)?)),
        [("hold_group", after)] => Ok(Outcome::hold_group(duration("hold_group", after)?)),
        [("cancel", reason)] => Ok(Outcome::cancel(text(reason))),
        [("discard", reason)] => Ok(Outcome::discard(text(reason))),
        _ if has_only("discard", &OF_DISCARD) => Err(failure("discard", members)?.permanent().into()),
        several => {
            let names: Vec<_> = several.iter().map(|(name, _)| *name).collect();
            Err(format!("the program's answer has members that do not go together: {}", names.join(", ")).into())
        }
    }
}

/// The error of a program that ended with a failure: its last line, where that is an error or a discard with a code.
pub(super) fn of_failed(answer: Option<Value>) -> Option<BoxError> {
    let Some(Value::Object(members)) = &answer else { return None };
    if !members.contains_key("error") && !members.contains_key("discard") {
        return None;
    }
    match outcome(answer?) {
        Ok(Outcome::Discard { reason }) => Some(JobError::new(reason).permanent().into()),
        Ok(_) => None,
        Err(error) => Some(error),
    }
}

/// An error whose text is the member `name`, with the optional members that the program gave.
fn failure(name: &str, members: &Map<String, Value>) -> Result<JobError, BoxError> {
    let mut error = JobError::new(members.get(name).map(text).unwrap_or_default());
    for (name, value) in members {
        error = match (name.as_str(), value) {
            (_, Value::Null) | ("error" | "discard", _) => error,
            ("retry_after", after) => error.retry_after(duration("retry_after", after)?),
            ("code", Value::String(code)) => error.code(code),
            ("type", Value::String(of_error)) => error.error_type(of_error),
            ("retryable", Value::Bool(true)) => error,
            ("retryable", Value::Bool(false)) => error.permanent(),
            ("details", details) => error.details(details.clone()),
            ("retryable", other) => {
                return Err(format!("the program's retryable must be true or false: {other}").into());
            }
            (name, other) => return Err(format!("the program's {name} must be a text: {other}").into()),
        };
    }
    Ok(error)
}

/// A text as it is, and any other value as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// A text such as `5m`, or a number of seconds.
fn duration(name: &str, value: &Value) -> Result<Duration, BoxError> {
    let read = match value {
        Value::String(text) => text.parse::<DurationArgument>().ok().map(|length| length.0),
        Value::Number(seconds) => seconds.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        _ => None,
    };
    read.ok_or_else(|| format!("the program's {name} must be a time such as \"5m\", or seconds: {value}").into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_an_output_unless_each_of_its_members_says_how_the_attempt_ended() {
        let complete = |output: Value| Outcome::complete_with(output).unwrap();
        let minutes = Duration::from_secs(300);
        for (answer, expected) in [
            (json!(null), Outcome::complete()),
            (json!(5), complete(json!(5))),
            (json!({}), complete(json!({}))),
            (json!({"error": 1, "total": 2}), complete(json!({"error": 1, "total": 2}))),
            (json!({"output": {"cancel": 1}}), complete(json!({"cancel": 1}))),
            (json!({"retry_after": 0.5}), Outcome::retry(Duration::from_millis(500), "the program asked for a retry")),
            (json!({"snooze": "5m"}), Outcome::snooze(minutes)),
            (json!({"hold_queue": "PT5M"}), Outcome::hold_queue(minutes)),
            (json!({"hold_group": 300}), Outcome::hold_group(minutes)),
            (json!({"cancel": "not wanted"}), Outcome::cancel("not wanted")),
            (json!({"discard": "hopeless"}), Outcome::discard("hopeless")),
        ] {
            assert_eq!(outcome(answer.clone()).unwrap(), expected, "{answer}");
        }
    }

    #[test]
    fn a_line_answers_the_job_that_it_names() {
        let read = |line: Value| to_job("7", line.to_string().as_bytes());
        for (line, expected) in [
            (json!({"id": "7"}), Some(json!(null))),
            (json!({"id": "7", "output": [1]}), Some(json!({"output": [1]}))),
            (json!({"id": "7", "error": "no", "code": "declined"}), Some(json!({"error": "no", "code": "declined"}))),
            (json!({"id": "8", "output": [1]}), None),
            (json!({"id": 7}), None),
            (json!({"error": "no"}), None),
            (json!(null), None),
        ] {
            assert_eq!(read(line.clone()).unwrap(), expected, "{line}");
        }
        let unknown = read(json!({"id": "7", "ouput": 1})).unwrap_err().to_string();
        assert_eq!(unknown, "the program's answer has an unknown member: ouput");
        let text = to_job("7", b"oops\n").unwrap_err().to_string();
        assert_eq!(text, "the program's answer is not a line of JSON: oops");
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_a_failed_attempt_that_says_why() {
        for (answer, problem) in [
            (json!({"error": "bad"}), "bad"),
            (json!({"error": "busy", "retry_after": "5m"}), "busy"),
            (json!({"error": {"code": 7}, "code": "declined", "retryable": false}), "{\"code\":7}"),
            (json!({"error": "bad", "code": 7}), "the program's code must be a text: 7"),
            (json!({"error": "bad", "retryable": "no"}), "the program's retryable must be true or false: \"no\""),
            (json!({"snooze": "soon"}), "the program's snooze must be a time such as \"5m\", or seconds: \"soon\""),
            (json!({"retry_after": -1}), "the program's retry_after must be a time such as \"5m\", or seconds: -1"),
            (
                json!({"snooze": 1, "cancel": ""}),
                "the program's answer has members that do not go together: cancel, snooze",
            ),
        ] {
            assert_eq!(outcome(answer.clone()).unwrap_err().to_string(), problem, "{answer}");
        }
    }
}
