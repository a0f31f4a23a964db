//! Where the pruner has been, and when it must come back.
//!
//! The ids are divided into stretches of at most [`STRETCH`] jobs. A visit to one tells when
//! something in it may go at the earliest, and until then nobody looks at it again: a table full of
//! jobs that wait, run or are kept costs one visit each, not one a round. Stretches that have become
//! nearly empty are joined.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

use uuid::Uuid;

/// How many jobs one visit looks at.
pub(super) const STRETCH: i64 = 2_000;

/// The ids from one on, divided into stretches: each begins after its key and goes to the next key.
#[derive(Debug)]
pub(super) struct Walk {
    stretches: BTreeMap<Uuid, Stretch>,
}

#[derive(Clone, Copy, Debug)]
struct Stretch {
    due_at: Instant,
    jobs: i64,
}

/// What a visit found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) remaining: i64,
    /// Where it ended, when it was cut short.
    pub(super) reached: Option<Uuid>,
    /// When something that remains may go.
    pub(super) due_at: Instant,
}

impl Walk {
    pub(super) fn new(now: Instant) -> Self {
        let whole = Stretch { due_at: now, jobs: 0 };
        Self { stretches: BTreeMap::from([(Uuid::nil(), whole)]) }
    }

    /// The first stretch that is due and begins after `after`: where it begins, and where it ends if
    /// it is not the last.
    pub(super) fn next_due(&self, after: Option<Uuid>, now: Instant) -> Option<(Uuid, Option<Uuid>)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (begin, _) = self.stretches.range((from, Bound::Unbounded)).find(|(_, stretch)| stretch.due_at <= now)?;
        Some((*begin, self.after(*begin).map(|(end, _)| end)))
    }

    /// Notes what a visit to the stretch that begins there found.
    pub(super) fn note(&mut self, begin: Uuid, visit: Visit, now: Instant) {
        let Visit { remaining, reached, due_at } = visit;
        let mut stretch = Stretch { due_at, jobs: remaining };
        if let Some(reached) = reached {
            self.stretches.insert(reached, Stretch { due_at: now, jobs: STRETCH });
        } else if let Some((end, next)) = self.after(begin)
            && next.jobs + remaining <= STRETCH / 2
        {
            self.stretches.remove(&end);
            stretch = Stretch { due_at: due_at.min(next.due_at), jobs: next.jobs + remaining };
        }
        self.stretches.insert(begin, stretch);
    }

    /// Everything is due: what was learnt does not hold any more.
    pub(super) fn forget(&mut self, now: Instant) {
        for stretch in self.stretches.values_mut() {
            stretch.due_at = now;
        }
    }

    fn after(&self, begin: Uuid) -> Option<(Uuid, Stretch)> {
        self.stretches.range((Bound::Excluded(begin), Bound::Unbounded)).next().map(|(end, next)| (*end, *next))
    }
}

/// When something that may go in so long is worth a visit: not before the next round, and at the
/// latest after a day, since what somebody changes by hand cannot be foreseen.
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

    fn begin() -> (Walk, Instant, Instant) {
        let now = Instant::now();
        (Walk::new(now), now, now + Duration::from_secs(60))
    }

    #[test]
    fn a_stretch_that_is_cut_short_goes_on_at_once_where_it_ended() {
        let (mut walk, now, later) = begin();
        assert_eq!(walk.next_due(None, now), Some((id(0), None)));
        walk.note(id(0), Visit { remaining: STRETCH, reached: Some(id(9)), due_at: later }, now);
        assert_eq!(walk.next_due(None, now), Some((id(9), None)));
        walk.note(id(9), Visit { remaining: 7, reached: None, due_at: later }, now);
        assert_eq!(walk.next_due(None, now), None);
        assert_eq!(walk.next_due(None, later), Some((id(0), Some(id(9)))));
        assert_eq!(walk.next_due(Some(id(0)), later), Some((id(9), None)));
    }

    #[test]
    fn stretches_that_are_nearly_empty_are_joined_and_keep_the_earlier_date() {
        let (mut walk, now, later) = begin();
        walk.note(id(0), Visit { remaining: STRETCH, reached: Some(id(9)), due_at: later }, now);
        let sooner = now + Duration::from_secs(30);
        walk.note(id(9), Visit { remaining: 10, reached: None, due_at: sooner }, now);
        walk.note(id(0), Visit { remaining: 20, reached: None, due_at: later }, now);
        assert_eq!(walk.next_due(None, sooner), Some((id(0), None)));
        assert_eq!(walk.stretches.len(), 1);
    }

    #[test]
    fn what_was_just_cut_off_is_not_joined_unseen() {
        let (mut walk, now, later) = begin();
        walk.note(id(0), Visit { remaining: 0, reached: Some(id(9)), due_at: later }, now);
        walk.note(id(0), Visit { remaining: 0, reached: None, due_at: later }, now);
        assert_eq!(walk.next_due(None, now), Some((id(9), None)));
    }

    #[test]
    fn a_visit_is_due_within_a_day_and_not_before_the_next_round() {
        let (_, now, _) = begin();
        let interval = Duration::from_secs(30);
        assert_eq!(due_at(now, Some(Duration::ZERO), interval), now + interval);
        assert_eq!(due_at(now, None, interval), now + Duration::from_secs(86_400));
    }
}
