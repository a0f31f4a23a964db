//! Retry policies: which errors are retried, and after how long.

use std::time::Duration;

use serde_json::{Map, Value};

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
        let refuse = |name: &str, must_be: &str, given: &Value| {
            Problem::unprocessable(format!("invalid retry.{name}: must be {must_be}: {}", Exact(given)))
                .detail("field", format!("retry.{name}"))
        };
        let given = |name: &str| document.get(name).filter(|value| !value.is_null());
        let length = |name: &str, default: Duration| match given(name) {
            Some(value) => value
                .as_str()
                .and_then(times::read_length)
                .ok_or_else(|| refuse(name, "an ISO 8601 duration such as PT1S, without months and years", value)),
            None => match given(&format!("{name}_ms")) {
                Some(value) => value
                    .as_u64()
                    .filter(|millis| *millis <= 3_155_760_000_000)
                    .map(Duration::from_millis)
                    .ok_or_else(|| {
                        refuse(&format!("{name}_ms"), "a whole number of milliseconds, at most a hundred years", value)
                    }),
                None => Ok(default),
            },
        };
        let max_attempts = match given("max_attempts") {
            None => DEFAULT_ATTEMPTS,
            Some(value) => match value.as_u64().and_then(|count| u16::try_from(count).ok()) {
                // 0 means no retry, and so does 1.
                Some(count) if count <= 32_767 => count.max(1),
                _ => return Err(refuse("max_attempts", "0 to 32767", value)),
            },
        };
        let coefficient = match given("backoff_coefficient") {
            None => 2.0,
            Some(value) => match exact::double(value) {
                Some(coefficient) if (1.0..=1_000_000.0).contains(&coefficient) => coefficient,
                _ => return Err(refuse("backoff_coefficient", "a number from 1 to 1000000", value)),
            },
        };
        let growth = match given("backoff_strategy") {
            None => Growth::Exponential,
            Some(value) => match value.as_str() {
                Some("none" | "constant") => Growth::None,
                Some("linear") => Growth::Linear,
                Some("exponential") => Growth::Exponential,
                Some("polynomial") => Growth::Polynomial,
                _ => {
                    return Err(refuse("backoff_strategy", "none, constant, linear, exponential or polynomial", value));
                }
            },
        };
        let has_jitter = match given("jitter") {
            None => true,
            Some(value) => value.as_bool().ok_or_else(|| refuse("jitter", "true or false", value))?,
        };
        let permanent_errors = match given("non_retryable_errors") {
            None => Vec::new(),
            Some(value) => {
                exact::texts(value).ok_or_else(|| refuse("non_retryable_errors", "an array of strings", value))?
            }
        };
        if let Some(value) = given("on_exhaustion")
            && !matches!(value.as_str(), Some("discard" | "dead_letter"))
        {
            return Err(refuse("on_exhaustion", "discard or dead_letter", value));
        }
        let first = length("initial_interval", Duration::from_secs(1))?;
        let longest = length("max_interval", Duration::from_secs(300))?;
        Ok(Self { max_attempts, first, coefficient, longest, has_jitter, growth, permanent_errors })
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
