//! Retry policies: which errors are retried, and after how long.

use std::time::Duration;

use serde_json::{Map, Value};
use uniqueue::period::LONGEST;

use crate::exact::{self, Exact};
use crate::problem::Problem;
use crate::times;

/// The attempts of a policy that names no number.
pub(crate) const DEFAULT_ATTEMPTS: u16 = 3;

/// How the wait grows with each retry.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Growth {
    None,
    Linear,
    Exponential,
    Polynomial,
}

/// A retry policy, with OJS's defaults where it names nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RetryPolicy {
    /// Attempts in all, at least 1.
    pub(crate) max_attempts: u16,
    first: Duration,
    coefficient: f64,
    longest: Duration,
    has_jitter: bool,
    growth: Growth,
    permanent_errors: Vec<String>,
}

impl RetryPolicy {
    /// Reads a policy. Each error names its member.
    pub(crate) fn read(document: &Map<String, Value>) -> Result<Self, Problem> {
        let length = |name: &str, default: Duration| -> Result<Duration, Problem> {
            let must_be = "an ISO 8601 duration such as PT1S, without months and years";
            let iso = member(document, name, must_be, |value| times::read_length(value.as_str()?))?;
            let must_be = "a whole number of milliseconds, at most a hundred years";
            let millis = |value: &Value| value.as_u64().map(Duration::from_millis).filter(|length| *length <= LONGEST);
            match iso {
                Some(length) => Ok(length),
                None => Ok(member(document, &format!("{name}_ms"), must_be, millis)?.unwrap_or(default)),
            }
        };
        // 0 means no retry, and so does 1.
        let attempts = |value: &Value| u16::try_from(value.as_u64()?).ok().filter(|count| *count <= 32_767);
        let coefficient =
            |value: &Value| exact::double(value).filter(|coefficient| (1.0..=1_000_000.0).contains(coefficient));
        let growth = |value: &Value| match value.as_str()? {
            "none" | "constant" => Some(Growth::None),
            "linear" => Some(Growth::Linear),
            "exponential" => Some(Growth::Exponential),
            "polynomial" => Some(Growth::Polynomial),
            _ => None,
        };
        let strategies = "none, constant, linear, exponential or polynomial";
        let on_exhaustion = |value: &Value| ["discard", "dead_letter"].contains(&value.as_str()?).then_some(());
        let max_attempts = member(document, "max_attempts", "0 to 32767", attempts)?.unwrap_or(DEFAULT_ATTEMPTS).max(1);
        let coefficient =
            member(document, "backoff_coefficient", "a number from 1 to 1000000", coefficient)?.unwrap_or(2.0);
        let growth = member(document, "backoff_strategy", strategies, growth)?.unwrap_or(Growth::Exponential);
        let has_jitter = member(document, "jitter", "true or false", Value::as_bool)?.unwrap_or(true);
        let permanent_errors = member(document, "non_retryable_errors", "an array of strings", exact::texts)?;
        member(document, "on_exhaustion", "discard or dead_letter", on_exhaustion)?;
        Ok(Self {
            max_attempts,
            first: length("initial_interval", Duration::from_secs(1))?,
            coefficient,
            longest: length("max_interval", Duration::from_secs(300))?,
            has_jitter,
            growth,
            permanent_errors: permanent_errors.unwrap_or_default(),
        })
    }

    /// The wait after a failed attempt, counted from 1.
    pub(crate) fn delay(&self, attempt: u16) -> Duration {
        let retry = f64::from(attempt.max(1));
        let factor = match self.growth {
            Growth::None => 1.0,
            Growth::Linear => retry,
            Growth::Exponential => self.coefficient.powf(retry - 1.0),
            Growth::Polynomial => retry.powf(self.coefficient),
        };
        let wait = (self.first.as_secs_f64() * factor).min(self.longest.as_secs_f64());
        let wait = Duration::try_from_secs_f64(wait).unwrap_or(self.longest);
        uniqueue::RetryPolicy::fixed(wait).jitter(if self.has_jitter { 0.5 } else { 0.0 }).wait_after(attempt)
    }

    /// Whether an error with one of these names is never retried. A name of the policy that ends in `.*` stands for every name
    /// that begins as it does.
    pub(crate) fn is_permanent(&self, names: &[&str]) -> bool {
        self.permanent_errors.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) if start.ends_with('.') => names.iter().any(|name| name.starts_with(start)),
            _ => names.contains(&pattern.as_str()),
        })
    }
}

/// A member of a policy, unless it is null.
fn member<T>(
    document: &Map<String, Value>,
    name: &str,
    must_be: &str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, Problem> {
    let Some(given) = document.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    read(given).map(Some).ok_or_else(|| {
        Problem::unprocessable(format!("invalid retry.{name}: must be {must_be}: {}", Exact(given)))
            .detail("field", format!("retry.{name}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(document: Value) -> RetryPolicy {
        RetryPolicy::read(document.as_object().unwrap()).unwrap()
    }

    #[test]
    fn waits_grow_as_the_strategy_says_up_to_the_longest() {
        let waits = |strategy: &str, coefficient: f64| {
            let policy = policy(json!({
                "backoff_strategy": strategy, "backoff_coefficient": coefficient, "jitter": false, "max_interval": "PT30S"
            }));
            [1, 2, 3, 30_000].map(|attempt| policy.delay(attempt).as_secs())
        };
        assert_eq!(waits("none", 2.0), [1, 1, 1, 1]);
        assert_eq!(waits("linear", 2.0), [1, 2, 3, 30]);
        assert_eq!(waits("exponential", 2.0), [1, 2, 4, 30]);
        assert_eq!(waits("polynomial", 3.0), [1, 8, 27, 30]);
    }

    #[test]
    fn jitter_spreads_a_wait_by_half() {
        let policy = policy(json!({}));
        assert_eq!(policy.max_attempts, 3);
        for _ in 0..200 {
            assert!((500..=1_500).contains(&policy.delay(1).as_millis()));
        }
    }

    #[test]
    fn an_error_that_the_policy_names_is_permanent() {
        let policy = policy(json!({"non_retryable_errors": ["Fatal", "auth.*"], "max_attempts": 0}));
        assert_eq!(policy.max_attempts, 1);
        assert!(policy.is_permanent(&["x", "Fatal"]) && policy.is_permanent(&["auth.expired"]));
        assert!(!policy.is_permanent(&["FatalError"]) && !policy.is_permanent(&["auth"]));
    }
}
