//! Counts of events of jobs, and histograms of how long runs waited and took.

use std::time::Duration;

/// The number of bounds between the buckets of a histogram.
const BOUNDS: usize = 80;

/// The bounds between two buckets of the history. `_history_bounds` in SQL has the same.
pub static HISTORY_BOUNDS: [Duration; BOUNDS] = {
    let decade = [1_000, 1_250, 1_600, 2_000, 2_500, 3_200, 4_000, 5_000, 6_300, 8_000];
    let mut bounds = [Duration::ZERO; BOUNDS];
    let mut place = 0;
    while place < BOUNDS {
        bounds[place] = Duration::from_micros(decade[place % 10] * 10_u64.pow((place / 10) as u32));
        place += 1;
    }
    bounds
};

/// How many lengths of time fell into each of 81 buckets. The bounds between them are ten a decade: 1, 1.25, 1.6, 2, 2.5, 3.2,
/// 4, 5, 6.3, 8, 10 ms and so on up to 80,000 s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Histogram {
    buckets: [u64; BOUNDS + 1],
    sum: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; BOUNDS + 1], sum: Duration::ZERO }
    }
}

impl Histogram {
    /// The counts of the buckets, without the zeros at the end.
    pub(crate) fn to_stored(self) -> Vec<u64> {
        let used = self.buckets.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        self.buckets[..used].to_vec()
    }

    pub(crate) fn add(&mut self, length: Duration) {
        self.buckets[HISTORY_BOUNDS.partition_point(|bound| *bound <= length)] += 1;
        self.sum = self.sum.saturating_add(length);
    }

    /// Adds the counts of another histogram.
    fn merge(&mut self, other: &Self) {
        for (bucket, count) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += count;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// The sum of the lengths.
    pub(crate) const fn sum(&self) -> Duration {
        self.sum
    }
}

/// The counts of events of jobs in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct HistoryCounts {
    /// Inserted jobs. An insert in a caller's transaction through this library counts also where that rolls back.
    pub(crate) inserted: u64,
    /// Inserts through this library that were duplicates. A duplicate of `insert_job` or `insert_jobs` in SQL is not counted.
    pub(crate) duplicates: u64,
    /// Completed runs.
    pub(crate) completed: u64,
    /// Failed runs, with or without another attempt.
    pub(crate) failed: u64,
    /// Discarded jobs. A job that a statement in SQL discarded counts only where a remote worker did it.
    pub(crate) discarded: u64,
    /// How long ended runs had waited from when their jobs were due.
    pub(crate) wait: Histogram,
    /// How long ended runs took.
    pub(crate) run: Histogram,
}

impl HistoryCounts {
    /// Adds the counts of another kind or queue.
    pub(crate) fn merge(&mut self, other: &Self) {
        let Self { inserted, duplicates, completed, failed, discarded, wait, run } = other;
        self.inserted += inserted;
        self.duplicates += duplicates;
        self.completed += completed;
        self.failed += failed;
        self.discarded += discarded;
        self.wait.merge(wait);
        self.run.merge(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_on_a_bound_and_the_longest_have_a_bucket() {
        let mut histogram = Histogram::default();
        for length in [Duration::ZERO, Duration::from_millis(1), Duration::MAX] {
            histogram.add(length);
        }
        assert_eq!((histogram.buckets[0], histogram.buckets[1], histogram.buckets[BOUNDS]), (1, 1, 1));
    }

    #[test]
    fn zeros_at_the_end_are_not_stored() {
        let mut histogram = Histogram::default();
        histogram.add(Duration::from_millis(7));
        assert_eq!(histogram.to_stored(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
