//! Rates: how many jobs start in a time.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::period::format_duration;

/// How many jobs of a queue, or of each of its groups, start in a time, over all runners.
///
/// ```
/// use std::time::Duration;
/// use uniqueue::Rate;
///
/// // Ten at once, then one every 100 ms.
/// let rate = Rate::per(10, Duration::from_secs(1));
/// assert_eq!(rate.burst, 10);
/// // One every 100 ms from the start.
/// let even = Rate::per(10, Duration::from_secs(1)).burst(1);
/// assert_eq!(even.to_string(), "10/1s, burst 1");
/// ```
///
/// In any length of time *t*, at most `burst + count × t / period` jobs start. A service that accepts at most *n* calls in
/// each *p* is never called too often with a count and a burst that are *n* together, and the period *p*.
///
/// The rate is GCRA, the generic cell rate algorithm. A start counts, whatever becomes of the job: a retry is another
/// start, and a job that is given back does not give its start back.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Rate {
    /// How many jobs start in each period. 1 to 1,000,000.
    pub count: u32,
    /// The period. 1 ms to 31 days, in whole microseconds.
    #[serde(with = "crate::period::seconds")]
    pub period: Duration,
    /// How many jobs start at once after a time without starts. 1 to 1,000,000. Default: the count.
    pub burst: u32,
}

impl Rate {
    /// A rate of `count` starts in each period. Its burst is the count too.
    #[must_use]
    pub const fn per(count: u32, period: Duration) -> Self {
        Self { count, period, burst: count }
    }

    /// How many jobs start at once after a time without starts. Default: the count. With 1, starts are evenly spaced, and
    /// one that comes late is not made up for.
    #[must_use]
    pub const fn burst(mut self, burst: u32) -> Self {
        self.burst = burst;
        self
    }
}

/// Such as `10/1s`, or `10/1s, burst 20`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, format_duration(self.period).replace(' ', ""))?;
        if self.burst == self.count { Ok(()) } else { write!(f, ", burst {}", self.burst) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_written_as_the_command_reads_it() {
        assert_eq!(Rate::per(10, Duration::from_secs(1)).to_string(), "10/1s");
        assert_eq!(Rate::per(1, Duration::from_secs(90)).burst(5).to_string(), "1/1m30s, burst 5");
    }
}
