//! The wait before a failed job is retried.

use std::time::Duration;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::period;

/// The wait before a failed job is retried: exponential backoff with jitter and an upper limit.
///
/// After attempt *n* a job waits `first × factor^(n−1)`, plus or minus the fraction `jitter`, and at
/// most `max_interval`. At that limit the jitter only shortens waits, so jobs that failed at once are
/// still retried apart. Default: 1 s, 2 s, 4 s … up to an hour, ±10 %.
///
/// For a wait that depends on the error, such as a `Retry-After`, the worker returns
/// [`Outcome::retry`](crate::Outcome::retry).
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct RetryPolicy {
    first: Duration,
    factor: f64,
    custom: Option<fn(u16) -> Duration>,
    /// `None` means the default of [`RetryPolicy::longest`].
    max_interval: Option<Duration>,
    jitter: f64,
}

/// The default `max_interval` of waits that grow.
const HOUR: Duration = Duration::from_secs(3600);

impl RetryPolicy {
    /// Starts at one second and doubles up to an hour.
    pub const fn exponential() -> Self {
        Self { first: Duration::from_secs(1), factor: 2.0, custom: None, max_interval: None, jitter: 0.1 }
    }

    /// Waits equally long after every failure, without jitter.
    pub const fn fixed(wait: Duration) -> Self {
        Self { first: wait, factor: 1.0, custom: None, max_interval: None, jitter: 0.0 }
    }

    /// Waits as long as a function returns for the failed attempt, counted from 1. Without jitter and
    /// `max_interval` unless they are set. `first` and `factor` have no effect. If the function panics,
    /// the runner logs the panic and waits by the default policy.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uniqueue::RetryPolicy;
    ///
    /// let quartic = RetryPolicy::custom(|attempt| Duration::from_secs(u64::from(attempt).pow(4))).jitter(0.1);
    /// # assert!(quartic.wait_after(3).as_secs_f64() > 72.0);
    /// ```
    pub const fn custom(wait_after: fn(u16) -> Duration) -> Self {
        Self { custom: Some(wait_after), jitter: 0.0, ..Self::exponential() }
    }

    /// The wait after the first failure. Default: 1 s. With zero there is no wait after any failure.
    pub const fn first(mut self, first: Duration) -> Self {
        self.first = first;
        self
    }

    /// The factor between two waits. Default: 2. A factor below 1 counts as 1.
    pub const fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// The longest wait. Default: an hour, or `first` if that is longer. There is no default limit for
    /// waits that do not grow, such as those of [`fixed`](Self::fixed), and for
    /// [`custom`](Self::custom).
    pub const fn max_interval(mut self, max_interval: Duration) -> Self {
        self.max_interval = Some(max_interval);
        self
    }

    /// The random fraction of a wait, 0 to 1. A wait of 30 s with a jitter of 0.2 takes 24 to 36 s, each
    /// equally likely. The range ends at `max_interval`, so a wait of an hour, the limit, takes 48
    /// minutes to an hour. Default: 0.1, and 0 for [`fixed`](Self::fixed) and
    /// [`custom`](Self::custom). NaN counts as 0.
    pub const fn jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }

    /// Returns the wait after an attempt, counted from 1, has failed.
    #[must_use]
    pub fn wait_after(&self, attempt: u16) -> Duration {
        // The low bits of a UUIDv7 are random, which saves a dependency.
        let random = (Uuid::now_v7().as_u128() & 0xffff_ffff) as f64 / f64::from(u32::MAX);
        self.wait(attempt, random)
    }

    /// The policy as `register_kind` takes it, with the members that differ from its defaults. `None`: a custom policy, which
    /// only its process knows.
    pub(crate) fn document(&self) -> Option<Value> {
        if self.custom.is_some() {
            return None;
        }
        let length = |length: Duration| Value::from(period::write(length.min(period::LONGEST)));
        let (factor, jitter) = (self.growth().min(1_000.0), self.fraction());
        let default_jitter = if factor > 1.0 { 0.1 } else { 0.0 };
        let members = [
            ("first", (self.first != Duration::from_secs(1)).then(|| length(self.first))),
            ("factor", (factor != 2.0).then(|| factor.into())),
            ("max_interval", self.max_interval.map(length)),
            ("jitter", (jitter != default_jitter).then(|| jitter.into())),
        ];
        let given = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Some(Value::Object(given.collect::<Map<_, _>>()))
    }

    /// The policy of a document as `register_kind` takes it. A member that is left out has its default.
    #[doc(hidden)]
    pub fn of_document(document: &Value) -> Self {
        let length = |name: &str| match document.get(name)?.as_str()? {
            "PT0S" | "0s" => Some(Duration::ZERO),
            text => period::parse(text).ok(),
        };
        let number = |name: &str| document.get(name).and_then(Value::as_f64);
        let factor = number("factor").unwrap_or(2.0);
        Self {
            first: length("first").unwrap_or(Duration::from_secs(1)),
            factor,
            custom: None,
            max_interval: length("max_interval"),
            jitter: number("jitter").unwrap_or(if factor > 1.0 { 0.1 } else { 0.0 }),
        }
    }

    fn wait(&self, attempt: u16, random: f64) -> Duration {
        let longest = self.longest();
        let plain = match self.custom {
            Some(wait_after) => wait_after(attempt).as_secs_f64(),
            // Zero times an infinite factor would be NaN.
            None if self.first.is_zero() => 0.0,
            None => self.first.as_secs_f64() * self.growth().powi(i32::from(attempt.saturating_sub(1))),
        };
        let plain = plain.min(longest.as_secs_f64());
        let jitter = self.fraction();
        let shortest = plain * (1.0 - jitter);
        // The range is limited before the random choice. Limiting the result would give half of all jobs the longest wait,
        // and they would be retried at the same time.
        let range = (plain * (1.0 + jitter)).min(longest.as_secs_f64()) - shortest;
        Duration::try_from_secs_f64(shortest + range * random).unwrap_or(longest)
    }

    fn fraction(&self) -> f64 {
        if self.jitter.is_nan() { 0.0 } else { self.jitter.clamp(0.0, 1.0) }
    }

    fn growth(&self) -> f64 {
        if self.factor >= 1.0 { self.factor } else { 1.0 }
    }

    fn longest(&self) -> Duration {
        match self.max_interval {
            Some(max_interval) => max_interval,
            None if self.custom.is_some() || self.growth() == 1.0 => Duration::MAX,
            None => self.first.max(HOUR),
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::exponential()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let policy = RetryPolicy::exponential().jitter(0.0);
        let waits: Vec<_> = [1, 2, 3, 12, 13, u16::MAX].map(|attempt| policy.wait_after(attempt).as_secs()).into();
        assert_eq!(waits, [1, 2, 4, 2048, 3600, 3600]);
    }

    #[test]
    fn jitter_stays_within_its_fraction() {
        let policy = RetryPolicy::exponential().jitter(0.5);
        assert_eq!(policy.wait(2, 0.0), Duration::from_secs(1));
        assert_eq!(policy.wait(2, 1.0), Duration::from_secs(3));
        for _ in 0..1000 {
            let wait = policy.wait_after(2).as_secs_f64();
            assert!((1.0..=3.0).contains(&wait), "{wait}");
        }
    }

    #[test]
    fn odd_policies_still_give_a_wait() {
        let odd = RetryPolicy::exponential().factor(f64::NAN).jitter(f64::INFINITY);
        assert!(odd.wait_after(5) <= Duration::from_secs(3600));
        assert_eq!(RetryPolicy::fixed(Duration::ZERO).wait_after(9), Duration::ZERO);
        assert_eq!(RetryPolicy::custom(|_| Duration::MAX).jitter(1.0).wait(1, 1.0), Duration::MAX);
    }

    #[test]
    fn at_the_limit_jitter_still_spreads_but_only_downward() {
        let policy = RetryPolicy::exponential().jitter(0.5);
        let waits = [0.0, 0.25, 0.5, 0.75, 1.0].map(|random| policy.wait(20, random).as_secs());
        assert_eq!(waits, [1800, 2250, 2700, 3150, 3600]);
        // Near the limit the range is shortened, so that waits do not gather at the limit.
        let near = policy.max_interval(Duration::from_secs(10));
        assert_eq!([0.0, 0.5, 1.0].map(|random| near.wait(4, random).as_secs()), [4, 7, 10]);
    }

    #[test]
    fn a_fixed_wait_spreads_around_its_value_up_to_a_limit() {
        let policy = RetryPolicy::fixed(Duration::from_secs(30)).jitter(0.2);
        assert_eq!([0.0, 0.5, 1.0].map(|random| policy.wait(7, random).as_secs()), [24, 30, 36]);
        let policy = policy.max_interval(Duration::from_secs(30));
        assert_eq!([0.0, 1.0].map(|random| policy.wait(7, random).as_secs()), [24, 30]);
        let hours = RetryPolicy::fixed(Duration::from_secs(7200)).jitter(0.5);
        assert_eq!([0.0, 1.0].map(|random| hours.wait(1, random).as_secs()), [3600, 10_800]);
    }

    #[test]
    fn a_first_wait_beyond_an_hour_raises_the_default_limit() {
        let first = |policy: RetryPolicy| policy.jitter(0.0).wait_after(1).as_secs();
        assert_eq!(first(RetryPolicy::exponential().first(2 * HOUR)), 7200);
        assert_eq!(RetryPolicy::exponential().first(2 * HOUR).jitter(0.0).wait_after(5).as_secs(), 7200);
        assert_eq!(first(RetryPolicy::exponential().first(2 * HOUR).max_interval(HOUR)), 3600);
        assert_eq!(first(RetryPolicy::fixed(Duration::from_secs(1)).first(Duration::from_secs(60))), 60);
    }

    #[test]
    fn zero_stays_zero_and_nan_is_no_jitter() {
        let none = RetryPolicy::exponential().first(Duration::ZERO);
        for attempt in [1, 2, 1024, 1025, 1026, u16::MAX] {
            assert_eq!(none.wait_after(attempt), Duration::ZERO, "{attempt}");
        }
        let nan = RetryPolicy::custom(|_| Duration::from_secs(1)).jitter(f64::NAN);
        assert_eq!(nan.wait_after(1), Duration::from_secs(1));
    }

    #[test]
    fn a_policy_is_registered_by_what_differs_from_the_default() {
        let exponential = RetryPolicy::exponential();
        for (policy, document) in [
            (exponential, json!({})),
            (exponential.first(Duration::from_secs(10)).jitter(0.5), json!({"first": "PT10S", "jitter": 0.5})),
            (
                exponential.factor(f64::INFINITY).max_interval(Duration::MAX),
                json!({"factor": 1000.0, "max_interval": "P36525D"}),
            ),
            (exponential.first(Duration::ZERO), json!({"first": "PT0S"})),
            (RetryPolicy::fixed(Duration::from_secs(30)), json!({"first": "PT30S", "factor": 1.0})),
            (
                RetryPolicy::fixed(Duration::from_secs(30)).jitter(0.1),
                json!({"first": "PT30S", "factor": 1.0, "jitter": 0.1}),
            ),
        ] {
            assert_eq!(policy.document(), Some(document.clone()));
            assert_eq!(RetryPolicy::of_document(&document).document(), Some(document));
        }
        assert_eq!(RetryPolicy::custom(|_| Duration::ZERO).document(), None);
    }

    #[test]
    fn a_custom_policy_waits_as_its_function_returns_up_to_the_limit() {
        let policy = RetryPolicy::custom(|attempt| Duration::from_secs(u64::from(attempt).pow(4)));
        assert_eq!([1, 2, 10].map(|attempt| policy.wait_after(attempt).as_secs()), [1, 16, 10_000]);
        assert_eq!(policy.max_interval(Duration::from_secs(60)).wait_after(10).as_secs(), 60);
    }
}
