//! Counts of events of jobs, and of how long runs waited and took, until they are written to the history.

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

/// The events of jobs that are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted {
    Inserted,
    Duplicates,
    Completed,
    Failed,
    Discarded,
}

/// The lengths of time of ended runs that are measured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Measured {
    /// How long they had waited from when their jobs were due.
    Wait,
    /// How long they took.
    Run,
}

/// The number of events.
const EVENTS: usize = Counted::Discarded as usize + 1;

/// The numbers of a measured length: its 81 buckets, and the sum in microseconds.
const LENGTHS: usize = BOUNDS + 2;

/// The counts of events of jobs in a time: a number for each event, then the numbers of each measured length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Tally([u64; EVENTS + 2 * LENGTHS]);

impl Default for Tally {
    fn default() -> Self {
        Self([0; EVENTS + 2 * LENGTHS])
    }
}

impl Tally {
    pub(crate) fn count(&mut self, event: Counted, times: u64) {
        self.0[event as usize] += times;
    }

    pub(crate) const fn counted(&self, event: Counted) -> u64 {
        self.0[event as usize]
    }

    pub(crate) fn measure(&mut self, what: Measured, length: Duration) {
        let lengths = &mut self.0[EVENTS + LENGTHS * what as usize..][..LENGTHS];
        lengths[HISTORY_BOUNDS.partition_point(|bound| *bound <= length)] += 1;
        let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        lengths[LENGTHS - 1] = lengths[LENGTHS - 1].saturating_add(micros);
    }

    /// The buckets of a length without the zeros at the end, and the sum in seconds.
    pub(crate) fn measured(&self, what: Measured) -> (&[u64], f64) {
        let (buckets, sum) = self.0[EVENTS + LENGTHS * what as usize..][..LENGTHS].split_at(LENGTHS - 1);
        let used = buckets.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        (&buckets[..used], Duration::from_micros(sum[0]).as_secs_f64())
    }

    /// Adds the counts of another time, kind or queue.
    pub(crate) fn add(&mut self, other: &Self) {
        for (own, others) in self.0.iter_mut().zip(other.0) {
            *own = own.saturating_add(others);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_on_a_bound_and_the_longest_have_a_bucket() {
        let mut tally = Tally::default();
        for length in [Duration::ZERO, Duration::from_millis(1), Duration::MAX] {
            tally.measure(Measured::Run, length);
        }
        let buckets = tally.measured(Measured::Run).0;
        assert_eq!((buckets.len(), buckets[0], buckets[1], buckets[BOUNDS]), (BOUNDS + 1, 1, 1, 1));
    }

    #[test]
    fn zeros_at_the_end_are_not_stored_and_tallies_add_up() {
        let mut tally = Tally::default();
        tally.measure(Measured::Wait, Duration::from_millis(7));
        tally.count(Counted::Failed, 2);
        let same = tally;
        tally.add(&same);
        assert_eq!(tally.measured(Measured::Wait), ([0, 0, 0, 0, 0, 0, 0, 0, 0, 2].as_slice(), 0.014));
        assert_eq!((tally.measured(Measured::Run), tally.counted(Counted::Failed)), (([].as_slice(), 0.0), 4));
    }
}
