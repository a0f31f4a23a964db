//! Groups: where the next fetch goes on among the groups of a queue, and when it may visit them.
//!
//! Groups take turns, so each fetch begins behind the group that the last one came to. A place that a job of this runner
//! frees is filled at once: its group is visited by the next fetch in any case.
//!
//! Groups that are blocked are visited in vain. Where a fetch took long, and no group could start a job or the fetch found
//! less than it wanted, the groups are left alone for a while: for nine times as long, but at most 500 ms, so that a place
//! that another runner frees is filled within a second.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::ident::QueueName;
use crate::store::{Fetched, GroupVisit, Slots};

/// A fetch that takes no longer than this is cheap.
const CHEAP: Duration = Duration::from_millis(2);

/// After an expensive one, groups are visited again after this many times its own duration.
const PAUSE: u32 = 9;

/// And in any case after this.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// How many freed groups one fetch visits at most.
const MAX_FREED: usize = 1_000;

/// The groups of a runner's queues.
#[derive(Default)]
pub(super) struct Groups {
    queues: Mutex<HashMap<QueueName, Turns>>,
}

#[derive(Default)]
struct Turns {
    /// The group that the last fetch came to.
    after: String,
    rest_until: Option<Instant>,
    /// The groups in which places were freed since they were last visited, and when.
    freed: BTreeMap<String, Instant>,
    /// Whether the last fetch saw available jobs of groups.
    has_groups: bool,
}

impl Groups {
    /// Which groups of a queue the next fetch visits.
    pub(super) fn visit(&self, queue: &QueueName, now: Instant) -> GroupVisit {
        let queues = self.queues();
        let Some(turns) = queues.get(queue) else { return GroupVisit::from_start() };
        let is_resting = turns.rest_until.is_some_and(|until| now < until);
        GroupVisit {
            after: turns.after.clone(),
            most: if is_resting { 0 } else { GroupVisit::MOST },
            freed: turns.freed.keys().take(MAX_FREED).cloned().collect(),
            has_groups: turns.has_groups,
        }
    }

    /// Notes that places were freed.
    pub(super) fn free(&self, groups: &[(QueueName, String)], now: Instant) {
        if groups.is_empty() {
            return;
        }
        let mut queues = self.queues();
        for (queue, group) in groups {
            queues.entry(queue.clone()).or_default().freed.insert(group.clone(), now);
        }
    }

    /// Notes what a fetch visited that began at that time.
    pub(super) fn visited(&self, slots: &[Slots], fetched: &Fetched, began: Instant, now: Instant) {
        let mut queues = self.queues();
        for slots in slots {
            let queue = &slots.queue;
            let reached = fetched.visited.iter().find(|(visited, _)| visited == queue).map(|(_, reached)| reached);
            let has_groups = fetched.with_groups.contains(queue);
            let turns = queues.entry(queue.clone()).or_default();
            turns.has_groups = has_groups;
            if reached.is_none() && has_groups {
                continue;
            }
            // The fetch did not see a place that was freed while it was under way.
            for group in &slots.groups.freed {
                if turns.freed.get(group).is_some_and(|freed_at| *freed_at < began) {
                    turns.freed.remove(group);
                }
            }
            let Some(reached) = reached else { continue };
            turns.after.clone_from(reached);
            let taken = fetched.jobs.iter().filter(|job| job.queue == *queue).count();
            if slots.groups.most > 0 {
                turns.rest_until = ((taken < slots.idle || !fetched.startable.contains(queue)) && fetched.took > CHEAP)
                    .then(|| now + fetched.took.saturating_mul(PAUSE).min(MAX_PAUSE));
            }
        }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<QueueName, Turns>> {
        // Nothing panics while it holds the lock.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;

    fn fetched(queue: &QueueName) -> Fetched {
        Fetched {
            jobs: Vec::new(),
            unreadable: Vec::new(),
            began_at: OffsetDateTime::UNIX_EPOCH,
            took: Duration::ZERO,
            held_back: Vec::new(),
            limited: Vec::new(),
            suspected: Vec::new(),
            alone_crashes: None,
            left_out: Vec::new(),
            with_groups: vec![queue.clone()],
            visited: vec![(queue.clone(), String::new())],
            startable: Vec::new(),
            next_in: None,
        }
    }

    #[test]
    fn a_place_that_is_freed_during_a_fetch_is_for_the_next_one() {
        let groups = Groups::default();
        let queue = QueueName::from_stored("mail");
        let mut now = Instant::now();
        let mut tick = || {
            now += Duration::from_millis(1);
            now
        };
        let freed = [(queue.clone(), "a".to_owned())];
        groups.free(&freed, tick());
        let fetch = |at| vec![Slots { queue: queue.clone(), free: 1, idle: 1, groups: groups.visit(&queue, at) }];
        let (slots, began) = (fetch(tick()), tick());
        groups.free(&freed, tick());
        groups.visited(&slots, &fetched(&queue), began, tick());
        let (slots, began) = (fetch(tick()), tick());
        assert_eq!(slots[0].groups.freed, ["a"], "the first fetch did not see the second place");
        groups.visited(&slots, &fetched(&queue), began, tick());
        assert!(fetch(tick())[0].groups.freed.is_empty());
    }
}
