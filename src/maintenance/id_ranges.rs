//! Ranges of job ids, and when the pruner visits each again.
//!
//! The ids are divided into ranges of at most [`RANGE`] jobs. A visit to a range tells when something in it may be
//! deleted at the earliest, and the range is not read again until then. So a table full of jobs that wait, run or are
//! retained costs one visit to each range, not one a round. Ranges that have become nearly empty are merged.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

use uuid::Uuid;

/// The most jobs that one visit reads.
pub(super) const RANGE: i64 = 2_000;

/// All ids, divided into ranges: each begins at its key and ends before the next key.
#[derive(Debug)]
pub(super) struct IdRanges {
    ranges: BTreeMap<Uuid, Range>,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    due_at: Instant,
    jobs: i64,
}

/// The result of a visit to a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeVisit {
    pub(super) remaining: i64,
    /// Where the visit ended, if before the end of the range.
    pub(super) reached: Option<Uuid>,
    /// When a job that remains may be deleted.
    pub(super) due_at: Instant,
}

impl IdRanges {
    pub(super) fn new(now: Instant) -> Self {
        let whole = Range { due_at: now, jobs: 0 };
        Self { ranges: BTreeMap::from([(Uuid::nil(), whole)]) }
    }

    /// The first range that is due and begins after `after`: its first id, and its last one unless it is the last range.
    pub(super) fn next_due(&self, after: Option<Uuid>, now: Instant) -> Option<(Uuid, Option<Uuid>)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (begin, _) = self.ranges.range((from, Bound::Unbounded)).find(|(_, range)| range.due_at <= now)?;
        Some((*begin, self.after(*begin).map(|(next, _)| Uuid::from_u128(next.as_u128() - 1))))
    }

    /// Records a visit to the range that begins there.
    pub(super) fn record(&mut self, begin: Uuid, visit: RangeVisit, now: Instant) {
        let RangeVisit { remaining, reached, due_at } = visit;
        let mut range = Range { due_at, jobs: remaining };
        if let Some(reached) = reached {
            self.ranges
                .insert(Uuid::from_u128(reached.as_u128().saturating_add(1)), Range { due_at: now, jobs: RANGE });
        } else if let Some((end, next)) = self.after(begin)
            && next.jobs + remaining <= RANGE / 2
        {
            self.ranges.remove(&end);
            range = Range { due_at: due_at.min(next.due_at), jobs: next.jobs + remaining };
        }
        self.ranges.insert(begin, range);
    }

    /// Makes every range due: the retention has changed.
    pub(super) fn make_all_due(&mut self, now: Instant) {
        for range in self.ranges.values_mut() {
            range.due_at = now;
        }
    }

    fn after(&self, begin: Uuid) -> Option<(Uuid, Range)> {
        self.ranges.range((Bound::Excluded(begin), Bound::Unbounded)).next().map(|(end, next)| (*end, *next))
    }
}

/// When a range is due in which a job may be deleted in `next_in`: not before the next round, and after a day at the
/// latest, since a change by hand cannot be foreseen.
pub(super) fn due_at(now: Instant, next_in: Option<Duration>, interval: Duration) -> Instant {
    const DAY: Duration = Duration::from_secs(86_400);
    now + next_in.unwrap_or(DAY).min(DAY).max(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn begin() -> (IdRanges, Instant, Instant) {
        let now = Instant::now();
        (IdRanges::new(now), now, now + Duration::from_secs(60))
    }

    #[test]
    fn a_range_that_is_too_long_goes_on_at_once_where_the_visit_ended() {
        let (mut ranges, now, later) = begin();
        assert_eq!(ranges.next_due(None, now), Some((id(0), None)));
        ranges.record(id(0), RangeVisit { remaining: RANGE, reached: Some(id(9)), due_at: later }, now);
        assert_eq!(ranges.next_due(None, now), Some((id(10), None)));
        ranges.record(id(10), RangeVisit { remaining: 7, reached: None, due_at: later }, now);
        assert_eq!(ranges.next_due(None, now), None);
        assert_eq!(ranges.next_due(None, later), Some((id(0), Some(id(9)))));
        assert_eq!(ranges.next_due(Some(id(0)), later), Some((id(10), None)));
    }

    #[test]
    fn ranges_that_are_nearly_empty_are_merged_and_keep_the_earlier_date() {
        let (mut ranges, now, later) = begin();
        ranges.record(id(0), RangeVisit { remaining: RANGE, reached: Some(id(9)), due_at: later }, now);
        let sooner = now + Duration::from_secs(30);
        ranges.record(id(10), RangeVisit { remaining: 10, reached: None, due_at: sooner }, now);
        ranges.record(id(0), RangeVisit { remaining: 20, reached: None, due_at: later }, now);
        assert_eq!(ranges.next_due(None, sooner), Some((id(0), None)));
        assert_eq!(ranges.ranges.len(), 1);
    }

    #[test]
    fn a_range_that_was_never_visited_is_not_merged() {
        let (mut ranges, now, later) = begin();
        ranges.record(id(0), RangeVisit { remaining: 0, reached: Some(id(9)), due_at: later }, now);
        ranges.record(id(0), RangeVisit { remaining: 0, reached: None, due_at: later }, now);
        assert_eq!(ranges.next_due(None, now), Some((id(10), None)));
    }

    #[test]
    fn a_visit_is_due_within_a_day_and_not_before_the_next_round() {
        let (_, now, _) = begin();
        let interval = Duration::from_secs(30);
        assert_eq!(due_at(now, Some(Duration::ZERO), interval), now + interval);
        assert_eq!(due_at(now, None, interval), now + Duration::from_secs(86_400));
    }
}
