//! Unique jobs, as the members `unique_for` and `unique_until` of `custom` ask for them.

use std::time::Duration;

use serde_json::{Map, Value};
use uniqueue::{UniquePolicy, Until};

use crate::reply::Refusal;

/// Whether a job is unique.
#[derive(Debug, PartialEq)]
pub(crate) enum Unique {
    By(Box<UniquePolicy>),
    /// The client bypasses uniqueness.
    No,
    /// The client does not say: the job's registered kind does, if it has one.
    NotSaid,
}

/// The longest time, which is that of the policy: 100 years.
const LONGEST: f64 = 100.0 * 365.0 * 86_400.0;

/// Reads the two members. The meta keeps them with the other members of `custom`.
pub(crate) fn unique(custom: &Map<String, Value>) -> Result<Unique, Refusal> {
    let until = match custom.get("unique_until") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if text == "success" => None,
        Some(Value::String(text)) if text == "start" => Some(Until::Start),
        Some(other) => {
            return Err(Refusal::new(format!("invalid unique_until: must be \"success\" or \"start\": {other}")));
        }
    };
    let seconds = match custom.get("unique_for") {
        None => return Ok(Unique::NotSaid),
        Some(Value::Null) => return Ok(Unique::No),
        Some(given) => length(given)?,
    };
    let policy = UniquePolicy::faktory(seconds);
    Ok(Unique::By(Box::new(match until {
        Some(until) => policy.until(until),
        None => policy,
    })))
}

fn length(given: &Value) -> Result<Duration, Refusal> {
    let seconds = given.as_f64().filter(|seconds| *seconds > 0.0 && *seconds <= LONGEST);
    // PostgreSQL's times have microseconds.
    let whole = seconds.map(|seconds| Duration::from_micros((seconds * 1e6).round() as u64));
    whole.filter(|whole| !whole.is_zero()).ok_or_else(|| {
        let problem = match seconds.is_none() && given.as_f64().is_some_and(|seconds| seconds > LONGEST) {
            true => "must be at most 100 years",
            false => "must be a number of seconds above 0",
        };
        Refusal::new(format!("invalid unique_for: {problem}: {given}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(custom: Value) -> Result<Unique, Refusal> {
        let Value::Object(custom) = custom else { unreachable!() };
        unique(&custom)
    }

    #[test]
    fn unique_for_and_unique_until_are_read_as_the_page_has_them() {
        let ten_minutes = UniquePolicy::faktory(Duration::from_secs(600));
        let by = |policy: UniquePolicy| Ok(Unique::By(Box::new(policy)));
        assert_eq!(of(json!({"unique_for": 600.0})), by(ten_minutes.clone()));
        assert_eq!(of(json!({"unique_for": 600, "unique_until": "success"})), by(ten_minutes.clone()));
        assert_eq!(of(json!({"unique_for": 600, "unique_until": "start"})), by(ten_minutes.until(Until::Start)));
        assert_eq!(of(json!({"unique_for": null})), Ok(Unique::No));
        assert_eq!(of(json!({"locale": "fr"})), Ok(Unique::NotSaid));
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
