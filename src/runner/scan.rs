//! Where a fetch begins to look.
//!
//! A fetch walks its queue from the head. What it walks there for nothing (jobs of kinds that have no
//! worker here; index entries of jobs long gone, which no vacuum may remove while somebody holds an old
//! snapshot) it would walk again each time. So the runner remembers how far it came in each priority,
//! and where the walk from the head has become dear, most fetches go on from there.
//!
//! What appears behind such a place is not seen by them: a job of a transaction that was open longer
//! than others, a promoted one, a new priority. So two deeper looks come in between: one that
//! begins a moment before the places, and one at the head. Each may take a tenth of the time at most:
//! after a look that took 50 ms, the next of its depth is due in half a second; but ten seconds later in
//! any case, since one that was slow for another reason says nothing of the next. Where a look is cheap,
//! which is where nothing is in the way, every fetch is at the head, and order is exact.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use uuid::Uuid;

use crate::ident::QueueName;
use crate::job::JobRow;
use crate::store::{Fetched, Place, Slots};

/// A walk that takes no longer than this is cheap.
const CHEAP: Duration = Duration::from_millis(2);

/// A dear walk may be made again after so many times its own duration.
const PAUSE: u32 = 9;

/// And in any case after this: the disk may have stood still for once, or the server's clock have been set.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long most transactions are over after their jobs were inserted: how far the middle look goes
/// back.
const MOMENT: time::Duration = time::Duration::SECOND;

/// How deep a fetch looks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Depth {
    /// From where the last one came to.
    Onward,
    /// From a moment before that.
    Recent,
    /// From the head of each queue.
    Full,
}

/// What the producer remembers of its walks.
pub(super) struct Scan {
    full: Due,
    recent: Due,
    /// By queue and priority: the last job taken.
    places: HashMap<QueueName, BTreeMap<i16, (OffsetDateTime, Uuid)>>,
}

impl Scan {
    pub(super) fn new(now: Instant) -> Self {
        Self { full: Due { at: now }, recent: Due { at: now }, places: HashMap::new() }
    }

    /// The deepest look that is due, and where it begins.
    pub(super) fn begin(&self, now: Instant) -> (Depth, Vec<Place>) {
        let depth = self.depth(now);
        (depth, self.places(depth))
    }

    fn depth(&self, now: Instant) -> Depth {
        if self.full.at <= now {
            Depth::Full
        } else if self.recent.at <= now {
            Depth::Recent
        } else {
            Depth::Onward
        }
    }

    /// Where a look of this depth begins, the highest priority first. Queues without a place are
    /// walked from the head.
    fn places(&self, depth: Depth) -> Vec<Place> {
        let back = match depth {
            Depth::Full => return Vec::new(),
            Depth::Recent => MOMENT,
            Depth::Onward => time::Duration::ZERO,
        };
        let mut places = Vec::new();
        for (queue, by_priority) in &self.places {
            for (priority, (scheduled_at, id)) in by_priority.iter().rev() {
                // The earliest time there is stays itself.
                let scheduled_at = scheduled_at.checked_sub(back).unwrap_or(*scheduled_at);
                let id = if back.is_zero() { *id } else { Uuid::nil() };
                places.push(Place { queue: queue.clone(), priority: *priority, scheduled_at, id });
            }
        }
        places
    }

    /// Remembers what a look cost, and how far it came in each queue.
    pub(super) fn remember(&mut self, depth: Depth, slots: &[Slots], fetched: &Fetched, now: Instant) {
        self.looked(depth, fetched.took, now);
        let mut by_queue: HashMap<&QueueName, Vec<&JobRow>> = HashMap::new();
        for row in &fetched.taken.jobs {
            by_queue.entry(&row.queue).or_default().push(row);
        }
        for Slots { queue, free } in slots {
            let taken = by_queue.remove(queue).unwrap_or_default();
            let unreadable = fetched.taken.unreadable.iter().filter(|job| job.queue == *queue).count();
            let has_more = taken.len() + unreadable >= *free || fetched.held_back.contains(queue);
            self.came_to(queue, &taken, has_more);
            if depth == Depth::Full && !has_more {
                self.exhausted(queue, fetched.began_at);
            }
        }
    }

    fn looked(&mut self, depth: Depth, took: Duration, now: Instant) {
        match depth {
            Depth::Full => self.full.after(took, now),
            Depth::Recent => self.recent.after(took, now),
            Depth::Onward => {}
        }
    }

    /// Remembers how far a look came in one queue, whose jobs are in the order of work. Where there may
    /// be more behind the last of them (`has_more`), that is where to go on, even if it is far behind
    /// where an earlier look came to.
    fn came_to(&mut self, queue: &QueueName, jobs: &[&JobRow], has_more: bool) {
        let mut above = None;
        for row in jobs.iter().rev() {
            // The last job of each priority tells.
            if above.is_some_and(|priority| row.priority <= priority) {
                continue;
            }
            let reached = (row.scheduled_at, row.id.as_uuid());
            let by_priority = self.places.entry(queue.clone()).or_default();
            let place = by_priority.entry(row.priority).or_insert(reached);
            *place = if has_more && above.is_none() { reached } else { reached.max(*place) };
            above = Some(row.priority);
        }
    }

    /// Remembers that a full look found a queue exhausted: what is there since before it began, by the
    /// database's clock, needs no other walk, however much of it is not for this runner.
    fn exhausted(&mut self, queue: &QueueName, began_at: OffsetDateTime) {
        let until = (began_at.checked_sub(MOMENT).unwrap_or(began_at), Uuid::nil());
        let by_priority = self.places.entry(queue.clone()).or_default();
        // Most jobs have the default priority, so it is worth a place before the first was seen.
        by_priority.entry(0).or_insert(until);
        for place in by_priority.values_mut() {
            *place = until.max(*place);
        }
    }
}

/// When a look may be made again.
struct Due {
    at: Instant,
}

impl Due {
    fn after(&mut self, took: Duration, now: Instant) {
        self.at = if took <= CHEAP { now } else { now + took.saturating_mul(PAUSE).min(LONGEST_PAUSE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn cheap_looks_are_always_full() {
        let start = Instant::now();
        let mut scan = Scan::new(start);
        for n in 0..5 {
            assert_eq!(scan.depth(start + n * MS), Depth::Full);
            scan.looked(Depth::Full, MS, start + n * MS);
        }
    }

    #[test]
    fn dear_looks_take_a_tenth_of_the_time_at_most() {
        let start = Instant::now();
        let mut scan = Scan::new(start);
        scan.looked(Depth::Full, 50 * MS, start);
        assert_eq!(scan.depth(start + 449 * MS), Depth::Recent);
        scan.looked(Depth::Recent, 10 * MS, start);
        assert_eq!(scan.depth(start + 89 * MS), Depth::Onward);
        assert_eq!(scan.depth(start + 90 * MS), Depth::Recent);
        assert_eq!(scan.depth(start + 450 * MS), Depth::Full);
    }

    #[test]
    fn one_slow_look_puts_the_next_off_for_seconds_only() {
        let start = Instant::now();
        for took in [Duration::from_secs(20), Duration::MAX] {
            let mut scan = Scan::new(start);
            scan.looked(Depth::Full, took, start);
            assert_ne!(scan.depth(start + LONGEST_PAUSE - MS), Depth::Full);
            assert_eq!(scan.depth(start + LONGEST_PAUSE), Depth::Full);
        }
    }

    #[test]
    fn an_exhausted_queue_is_left_behind_but_for_a_moment() {
        let began_at = OffsetDateTime::UNIX_EPOCH + time::Duration::days(1);
        let queue = QueueName::default();
        let mut scan = Scan::new(Instant::now());
        assert_eq!(scan.places(Depth::Onward), []);
        scan.exhausted(&queue, began_at);
        let place = |back| Place {
            queue: queue.clone(),
            priority: 0,
            scheduled_at: began_at - time::Duration::seconds(back),
            id: Uuid::nil(),
        };
        assert_eq!(scan.places(Depth::Onward), [place(1)]);
        assert_eq!(scan.places(Depth::Recent), [place(2)]);
        assert_eq!(scan.places(Depth::Full), []);
    }
}
