//! Where a fetch begins its scan of a queue.
//!
//! A fetch scans its queue from the head. Rows that it skips there (jobs of kinds that have no worker here; index entries of
//! jobs long gone, which no vacuum may remove while an old snapshot is open) it would skip again each time. So the runner
//! keeps a cursor, the last position in each priority, and where the scan from the head has become expensive, most
//! fetches go on from there.
//!
//! Such fetches do not see what appears behind the cursor: a job of a transaction that was open longer than others, a
//! promoted job, a new priority. So two deeper scans come in between: one that begins a moment before the cursor, and one
//! from the head. Each takes a tenth of the time at most: after a scan that took 50 ms, the next of its depth is due in
//! half a second; but ten seconds later in any case, since a scan that was slow for another reason says nothing of the
//! next. Where a scan is cheap, which is where nothing is in the way, every fetch is from the head, and order is exact.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::{Fetched, Position, QueueDemand};
use crate::words::ident::QueueName;
use crate::words::job::JobRow;

/// A scan that takes no longer than this is cheap.
const CHEAP: Duration = Duration::from_millis(2);

/// An expensive scan is made again after this many times its own duration.
const PAUSE: u32 = 9;

/// The longest pause between two expensive scans. One slow scan can have another cause, such as the disk.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// How long most transactions take to commit after they inserted their jobs: how far the middle scan goes back.
const MOMENT: time::Duration = time::Duration::SECOND;

/// How deep a fetch scans.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::runner) enum Depth {
    /// From where the last one came to.
    Onward,
    /// From a moment before that.
    Recent,
    /// From the head of each queue.
    Full,
}

/// The producer's memory of its scans.
pub(in crate::runner) struct Cursor {
    /// When a full scan may be made again.
    full_at: Instant,
    recent_at: Instant,
    /// By queue and priority: the last job taken.
    positions: HashMap<QueueName, BTreeMap<i16, (OffsetDateTime, Uuid)>>,
}

impl Cursor {
    pub(in crate::runner) fn new(now: Instant) -> Self {
        Self { full_at: now, recent_at: now, positions: HashMap::new() }
    }

    /// The deepest scan that is due, and where it begins.
    pub(in crate::runner) fn begin(&self, now: Instant) -> (Depth, Vec<Position>) {
        let depth = self.depth(now);
        (depth, self.positions(depth))
    }

    fn depth(&self, now: Instant) -> Depth {
        if self.full_at <= now {
            Depth::Full
        } else if self.recent_at <= now {
            Depth::Recent
        } else {
            Depth::Onward
        }
    }

    /// Where a scan of this depth begins, the highest priority first. Queues without a position are scanned from the head.
    fn positions(&self, depth: Depth) -> Vec<Position> {
        let back = match depth {
            Depth::Full => return Vec::new(),
            Depth::Recent => MOMENT,
            Depth::Onward => time::Duration::ZERO,
        };
        let mut positions = Vec::new();
        for (queue, by_priority) in &self.positions {
            for (priority, (scheduled_at, id)) in by_priority.iter().rev() {
                // The earliest time there is stays itself.
                let scheduled_at = scheduled_at.checked_sub(back).unwrap_or(*scheduled_at);
                let id = if back.is_zero() { *id } else { Uuid::nil() };
                positions.push(Position { queue: queue.clone(), priority: *priority, scheduled_at, id });
            }
        }
        positions
    }

    /// Remembers what a scan cost, and how far it came in each queue.
    pub(in crate::runner) fn remember(&mut self, depth: Depth, slots: &[QueueDemand], fetched: &Fetched, now: Instant) {
        self.scanned(depth, fetched.took, now);
        let mut by_queue: HashMap<&QueueName, Vec<&JobRow>> = HashMap::new();
        // Suspects and jobs of groups are found by scans of their own.
        let is_other = |row: &&JobRow| row.crashes > 0 || row.group_key.is_some();
        for row in fetched.jobs.iter().filter(|row| !is_other(row)) {
            by_queue.entry(&row.queue).or_default().push(row);
        }
        for QueueDemand { queue, free, .. } in slots {
            let taken = by_queue.remove(queue).unwrap_or_default();
            let others = fetched.jobs.iter().filter(is_other).map(|row| &row.queue);
            let others =
                others.chain(fetched.unreadable.iter().map(|job| &job.queue)).filter(|of| *of == queue).count();
            let has_more = taken.len() + others >= *free || fetched.any_facts(queue, |facts| facts.is_held_back);
            self.came_to(queue, &taken, has_more);
            if depth == Depth::Full && !has_more {
                self.exhausted(queue, fetched.began_at);
            }
        }
    }

    fn scanned(&mut self, depth: Depth, took: Duration, now: Instant) {
        let again_at = if took <= CHEAP { now } else { now + took.saturating_mul(PAUSE).min(MAX_PAUSE) };
        match depth {
            Depth::Full => self.full_at = again_at,
            Depth::Recent => self.recent_at = again_at,
            Depth::Onward => {}
        }
    }

    /// Remembers how far a scan came in one queue, whose jobs are in the order of work. Where there may be more behind the
    /// last of them (`has_more`), the next scan goes on there, even if an earlier one came further.
    fn came_to(&mut self, queue: &QueueName, jobs: &[&JobRow], has_more: bool) {
        let mut above = None;
        for row in jobs.iter().rev() {
            // The last job of each priority tells.
            if above.is_some_and(|priority| row.priority <= priority) {
                continue;
            }
            let reached = (row.scheduled_at, row.id.as_uuid());
            let by_priority = self.positions.entry(queue.clone()).or_default();
            let position = by_priority.entry(row.priority).or_insert(reached);
            *position = if has_more && above.is_none() { reached } else { reached.max(*position) };
            above = Some(row.priority);
        }
    }

    /// Remembers that a full scan found a queue exhausted: rows that were there before it began, by the database's clock,
    /// need no other scan, however many of them are not for this runner.
    fn exhausted(&mut self, queue: &QueueName, began_at: OffsetDateTime) {
        let until = (began_at.checked_sub(MOMENT).unwrap_or(began_at), Uuid::nil());
        let by_priority = self.positions.entry(queue.clone()).or_default();
        // Most jobs have the default priority, so it gets a position before the first such job was seen.
        by_priority.entry(0).or_insert(until);
        for position in by_priority.values_mut() {
            *position = until.max(*position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn cheap_scans_are_always_full() {
        let start = Instant::now();
        let mut cursor = Cursor::new(start);
        for n in 0..5 {
            assert_eq!(cursor.depth(start + n * MS), Depth::Full);
            cursor.scanned(Depth::Full, MS, start + n * MS);
        }
    }

    #[test]
    fn expensive_scans_take_a_tenth_of_the_time_at_most() {
        let start = Instant::now();
        let mut cursor = Cursor::new(start);
        cursor.scanned(Depth::Full, 50 * MS, start);
        assert_eq!(cursor.depth(start + 449 * MS), Depth::Recent);
        cursor.scanned(Depth::Recent, 10 * MS, start);
        assert_eq!(cursor.depth(start + 89 * MS), Depth::Onward);
        assert_eq!(cursor.depth(start + 90 * MS), Depth::Recent);
        assert_eq!(cursor.depth(start + 450 * MS), Depth::Full);
    }

    #[test]
    fn one_slow_scan_puts_the_next_off_for_seconds_only() {
        let start = Instant::now();
        for took in [Duration::from_secs(20), Duration::MAX] {
            let mut cursor = Cursor::new(start);
            cursor.scanned(Depth::Full, took, start);
            assert_ne!(cursor.depth(start + MAX_PAUSE - MS), Depth::Full);
            assert_eq!(cursor.depth(start + MAX_PAUSE), Depth::Full);
        }
    }

    #[test]
    fn an_exhausted_queue_is_left_behind_but_for_a_moment() {
        let began_at = OffsetDateTime::UNIX_EPOCH + time::Duration::days(1);
        let queue = QueueName::default();
        let mut cursor = Cursor::new(Instant::now());
        assert_eq!(cursor.positions(Depth::Onward), []);
        cursor.exhausted(&queue, began_at);
        let position = |back| Position {
            queue: queue.clone(),
            priority: 0,
            scheduled_at: began_at - time::Duration::seconds(back),
            id: Uuid::nil(),
        };
        assert_eq!(cursor.positions(Depth::Onward), [position(1)]);
        assert_eq!(cursor.positions(Depth::Recent), [position(2)]);
        assert_eq!(cursor.positions(Depth::Full), []);
    }
}
