//! When a failed job tries again.

use std::time::Duration;

use uuid::Uuid;

/// How long a failed job waits: exponential, with jitter, up to a longest interval.
///
/// Attempt *n* waits `first × factor^(n−1)`, at most `max_interval`, more or less `jitter` of it.
/// Default: 1 s, 2 s, 4 s … up to an hour, ±10 %.
///
/// A wait that depends on the error (a `Retry-After`, say) is the worker's to tell:
/// [`Outcome::retry`](crate::Outcome::retry).
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct RetryPolicy {
    first: Duration,
    factor: f64,
    custom: Option<fn(u16) -> Duration>,
    max_interval: Duration,
    jitter: f64,
}

impl RetryPolicy {
    /// Exponential from one second, doubling, up to an hour.
    pub const fn exponential() -> Self {
        Self {
            first: Duration::from_secs(1),
            factor: 2.0,
            custom: None,
            max_interval: Duration::from_secs(3600),
            jitter: 0.1,
        }
    }

    /// The same wait after every failure, without jitter.
    pub const fn fixed(wait: Duration) -> Self {
        Self { first: wait, factor: 1.0, custom: None, max_interval: wait, jitter: 0.0 }
    }

    /// What a function says of the attempt that failed, counted from 1. No jitter and no longest
    /// interval unless they are set; `first` and `factor` mean nothing to it. After an attempt at which the function panics,
    /// the runner waits as the default policy says, and logs the panic.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uniqueue::RetryPolicy;
    ///
    /// let quartic = RetryPolicy::custom(|attempt| Duration::from_secs(u64::from(attempt).pow(4))).jitter(0.1);
    /// # assert!(quartic.wait_after(3).as_secs_f64() > 72.0);
    /// ```
    pub const fn custom(wait_after: fn(u16) -> Duration) -> Self {
        Self { custom: Some(wait_after), max_interval: Duration::MAX, jitter: 0.0, ..Self::exponential() }
    }

    /// The wait after the first failure. Default: 1 s.
    pub const fn first(mut self, first: Duration) -> Self {
        self.first = first;
        self
    }

    /// What each wait is multiplied by. Default: 2. Below 1 counts as 1.
    pub const fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// The longest wait. Default: an hour.
    pub const fn max_interval(mut self, max_interval: Duration) -> Self {
        self.max_interval = max_interval;
        self
    }

    /// The part of a wait that is left to chance, 0 to 1. Default: 0.1.
    pub const fn jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }

    /// The wait after the given attempt, counted from 1, has failed.
    #[must_use]
    pub fn wait_after(&self, attempt: u16) -> Duration {
        // The low bits of a UUIDv7 are random, which saves a dependency.
        let random = (Uuid::now_v7().as_u128() & 0xffff_ffff) as f64 / f64::from(u32::MAX);
        self.wait(attempt, random)
    }

    fn wait(&self, attempt: u16, random: f64) -> Duration {
        let longest = self.max_interval.as_secs_f64();
        let plain = match self.custom {
            Some(wait_after) => wait_after(attempt).as_secs_f64(),
            None => {
                let factor = if self.factor >= 1.0 { self.factor } else { 1.0 };
                self.first.as_secs_f64() * factor.powi(i32::from(attempt.saturating_sub(1)))
            }
        };
        let plain = plain.min(longest);
        let jitter = self.jitter.clamp(0.0, 1.0) * (2.0 * random - 1.0);
        Duration::try_from_secs_f64((plain * (1.0 + jitter)).min(longest)).unwrap_or(self.max_interval)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::exponential()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let policy = RetryPolicy::exponential().jitter(0.0);
        let waits: Vec<_> = [1, 2, 3, 12, 13, u16::MAX].map(|attempt| policy.wait_after(attempt).as_secs()).into();
        assert_eq!(waits, [1, 2, 4, 2048, 3600, 3600]);
    }

    #[test]
    fn jitter_stays_within_its_part() {
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
    fn a_custom_policy_waits_as_its_function_says_up_to_the_longest() {
        let policy = RetryPolicy::custom(|attempt| Duration::from_secs(u64::from(attempt).pow(4)));
        assert_eq!([1, 2, 10].map(|attempt| policy.wait_after(attempt).as_secs()), [1, 16, 10_000]);
        assert_eq!(policy.max_interval(Duration::from_secs(60)).wait_after(10).as_secs(), 60);
    }
}
