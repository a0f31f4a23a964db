//! Counts of events of jobs, and histograms of how long runs waited and took, as the history answers them.

use std::time::Duration;

use serde::Deserialize;
use uniqueue::HISTORY_BOUNDS;

/// The number of bounds between the buckets of a histogram.
const BOUNDS: usize = HISTORY_BOUNDS.len();

/// How many lengths of time fell into each of 81 buckets. The bounds between them are ten a decade: 1, 1.25, 1.6, 2, 2.5, 3.2,
/// 4, 5, 6.3, 8, 10 ms and so on up to 80,000 s.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(from = "(Vec<u64>, f64)")]
pub struct Histogram {
    buckets: [u64; BOUNDS + 1],
    sum: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; BOUNDS + 1], sum: Duration::ZERO }
    }
}

impl From<(Vec<u64>, f64)> for Histogram {
    /// A histogram as it is stored: its counts without the zeros at the end, and the sum in seconds.
    fn from((counts, sum): (Vec<u64>, f64)) -> Self {
        let mut stored = Self { sum: Duration::try_from_secs_f64(sum).unwrap_or_default(), ..Self::default() };
        for (bucket, count) in stored.buckets.iter_mut().zip(counts) {
            *bucket = count;
        }
        stored
    }
}

impl Histogram {
    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += count;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// How many lengths it counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The sum of the lengths.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        self.sum
    }

    /// The average length. `None`: nothing was counted.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let count = self.count();
        (count > 0).then(|| self.sum.div_f64(count as f64))
    }

    /// The length that this share of the lengths did not exceed: 0.95 asks for the 95th percentile. From 1 ms to 80,000 s it is
    /// at most 13 % off, and never more than 80,000 s. `None`: nothing was counted.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let target = self.count() as f64 * share.clamp(0.0, 1.0);
        let mut seen = 0;
        let reached = |bucket: &u64| {
            seen += bucket;
            *bucket > 0 && seen as f64 >= target
        };
        Some(match self.buckets.iter().position(reached)? {
            0 => HISTORY_BOUNDS[0] / 2,
            BOUNDS => HISTORY_BOUNDS[BOUNDS - 1],
            place => {
                // The value whose distance to either bound is the same share of that bound.
                let (lower, upper) = (HISTORY_BOUNDS[place - 1], HISTORY_BOUNDS[place]);
                lower.mul_f64(2.0 / (1.0 + lower.div_duration_f64(upper)))
            }
        })
    }

    /// The buckets in order: the bound below which each counts, and its count. The last one has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        self.buckets.iter().enumerate().map(|(place, count)| (HISTORY_BOUNDS.get(place).copied(), *count))
    }
}

/// The counts of events of jobs in a time.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[non_exhaustive]
#[serde(default)]
pub struct HistoryCounts {
    /// Inserted jobs. An insert in a caller's transaction through this library counts also where that rolls back.
    pub inserted: u64,
    /// Inserts through this library that were duplicates. A duplicate of `insert_job` or `insert_jobs` in SQL is not counted.
    pub duplicates: u64,
    /// Completed runs.
    pub completed: u64,
    /// Failed runs, with or without another attempt.
    pub failed: u64,
    /// Discarded jobs. A job that a statement in SQL discarded counts only where a remote worker did it.
    pub discarded: u64,
    /// How long ended runs had waited from when their jobs were due.
    pub wait: Histogram,
    /// How long ended runs took.
    pub run: Histogram,
}

impl HistoryCounts {
    /// Adds the counts of another time, kind or queue.
    pub fn merge(&mut self, other: &Self) {
        let Self { inserted, duplicates, completed, failed, discarded, wait, run } = other;
        self.inserted += inserted;
        self.duplicates += duplicates;
        self.completed += completed;
        self.failed += failed;
        self.discarded += discarded;
        self.wait.merge(wait);
        self.run.merge(run);
    }

    /// Whether nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The share of ended runs that failed. `None`: no run completed or failed.
    #[must_use]
    pub fn failed_share(&self) -> Option<f64> {
        let ended = self.completed + self.failed;
        (ended > 0).then(|| self.failed as f64 / ended as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A histogram of lengths that fell into these buckets.
    fn of(buckets: &[usize]) -> Histogram {
        let mut counts = vec![0; BOUNDS + 1];
        buckets.iter().for_each(|bucket| counts[*bucket] += 1);
        Histogram::from((counts, 0.0))
    }

    #[test]
    fn a_quantile_is_at_most_13_percent_off() {
        assert_eq!(Histogram::default().quantile(0.5), None);
        for micros in (1_000..100_000_000).step_by(77_777) {
            let length = Duration::from_micros(micros);
            let mut buckets = vec![HISTORY_BOUNDS.partition_point(|bound| *bound <= length); 20];
            buckets.push(BOUNDS);
            for share in [0.0, 0.5, 0.95] {
                let ratio = of(&buckets).quantile(share).unwrap().div_duration_f64(length);
                assert!((0.87..=1.13).contains(&ratio), "{length:?} at {share}: {ratio}");
            }
        }
    }

    #[test]
    fn the_longest_lengths_are_80_000_seconds() {
        assert_eq!(of(&[0, BOUNDS]).quantile(1.0), Some(Duration::from_secs(80_000)));
    }

    #[test]
    fn zeros_at_the_end_are_not_stored() {
        assert_eq!(Histogram::from((vec![0, 2], 0.0)), of(&[1, 1]));
    }
}
