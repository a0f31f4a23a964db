//! Groups: where the next fetch goes on among the groups of a queue, and when it may visit them.
//!
//! Groups take turns, so each fetch begins behind the group that the last one came to. A place that a job of this runner
//! frees is filled at once: its group is visited by the next fetch in any case.
//!
//! Groups that are blocked are visited in vain. So a fetch visits only some of them, and where none of these could start a
//! job, or the fetch found less than it wanted, the groups are left alone for nine times as long as the visit took. Visits
//! so take a tenth of a connection's time, however many groups are blocked. A pause is short enough that 10,000 blocked
//! groups are visited within a second, and a place that another runner frees is filled by then.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::store::{Fetched, GroupVisit, QueueDemand, Visit};
use crate::words::ident::QueueName;

/// A visit that takes no longer than this is cheap.
const CHEAP: Duration = Duration::from_millis(2);

/// After a visit in vain, groups are visited again after this many times its own duration.
const PAUSE: u32 = 9;

/// And in any case after this for each [`MOST`] groups.
const MAX_PAUSE: Duration = Duration::from_millis(80);

/// How many groups a fetch visits at most, at each priority; twice as many as it has idle slots, where that is more. The next
/// fetch goes on behind them.
const MOST: usize = 1_000;

/// The same of a drain, which looks for one job alone.
#[cfg(feature = "testing")]
pub(in crate::runner) const MOST_ALONE: usize = 10_000;

/// A round of visits to all groups of a queue begins this long after the last one began, or when that one ended.
const ROUND: Duration = Duration::from_secs(1);

/// How many freed groups one fetch visits at most.
const MAX_FREED: usize = 1_000;

/// The groups of a runner's queues.
#[derive(Default)]
pub(in crate::runner) struct RunnerGroups {
    queues: Mutex<HashMap<QueueName, Turns>>,
}

#[derive(Default)]
struct Turns {
    /// The group that the last fetch came to.
    after: String,
    rest_until: Option<Instant>,
    /// When the round of visits began that is under way.
    round_began: Option<Instant>,
    /// The groups in which places were freed since they were last visited, and when.
    freed: BTreeMap<String, Instant>,
    /// Whether the last fetch saw available jobs of groups.
    has_groups: bool,
}

impl RunnerGroups {
    /// Which groups of a queue the next fetch visits.
    pub(in crate::runner) fn visit(&self, queue: &QueueName, idle: usize, now: Instant) -> GroupVisit {
        let most = MOST.max(2 * idle);
        let queues = self.queues();
        let Some(turns) = queues.get(queue) else { return GroupVisit::from_start(most) };
        let is_resting = turns.rest_until.is_some_and(|until| now < until);
        GroupVisit {
            after: turns.after.clone(),
            most: if is_resting { 0 } else { most },
            freed: turns.freed.keys().take(MAX_FREED).cloned().collect(),
            has_groups: turns.has_groups,
        }
    }

    /// Notes that places were freed.
    pub(in crate::runner) fn free(&self, groups: &[(QueueName, String)], now: Instant) {
        if groups.is_empty() {
            return;
        }
        let mut queues = self.queues();
        for (queue, group) in groups {
            queues.entry(queue.clone()).or_default().freed.insert(group.clone(), now);
        }
    }

    /// Notes what a fetch visited that began at that time. Answers when the next visit is due, where nothing calls for one
    /// before.
    pub(in crate::runner) fn visited(
        &self,
        slots: &[QueueDemand],
        fetched: &Fetched,
        began: Instant,
        now: Instant,
    ) -> Option<Instant> {
        let mut queues = self.queues();
        let mut due = None;
        for slots in slots {
            let queue = &slots.queue;
            let visited = fetched.visit_of(queue);
            let has_groups = fetched.any_facts(queue, |facts| facts.has_groups);
            let turns = queues.entry(queue.clone()).or_default();
            turns.has_groups = has_groups;
            if slots.groups.most == 0 {
                due = due.into_iter().chain(turns.rest_until).min();
            }
            if visited.is_none() && has_groups {
                continue;
            }
            // The fetch did not see a place that was freed while it was under way.
            for group in &slots.groups.freed {
                if turns.freed.get(group).is_some_and(|freed_at| *freed_at < began) {
                    turns.freed.remove(group);
                }
            }
            let Some(Visit { reached, has_startable, took }) = visited else { continue };
            turns.after.clone_from(reached);
            if slots.groups.most == 0 {
                continue;
            }
            let taken = fetched.jobs.iter().filter(|job| job.queue == *queue).count();
            let is_in_vain = !has_startable || (taken < slots.idle && *took > CHEAP);
            let max_pause = MAX_PAUSE * u32::try_from(slots.groups.most.div_ceil(MOST)).unwrap_or(u32::MAX);
            turns.rest_until = is_in_vain.then(|| now + took.saturating_mul(PAUSE).min(max_pause));
            let round_began = turns.round_began.take().unwrap_or(began);
            let next = if *has_startable {
                // The next fetch begins another round.
                None
            } else if *reached == slots.groups.after {
                Some(round_began + ROUND)
            } else {
                turns.round_began = Some(round_began);
                turns.rest_until
            };
            due = due.into_iter().chain(next).min();
        }
        due
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<QueueName, Turns>> {
        // Nothing panics while it holds the lock.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use time::OffsetDateTime;

    use super::*;

    fn fetched(queue: &QueueName, reached: &str, has_startable: bool, took: Duration) -> Fetched {
        let facts = json!({
            "name": queue.as_str(), "is_held_back": false, "is_limited": false, "has_groups": true,
            "visit": { "reached": reached, "has_startable": has_startable, "took": took.as_secs_f64() },
        });
        Fetched {
            jobs: Vec::new(),
            unreadable: Vec::new(),
            bytes: 0,
            began_at: OffsetDateTime::UNIX_EPOCH,
            took: Duration::ZERO,
            queues: vec![serde_json::from_value(facts).unwrap()],
            plan: None,
            left_out: Vec::new(),
            next_in: None,
        }
    }

    #[test]
    fn visits_in_vain_take_a_tenth_of_the_time_and_a_round_begins_each_second() {
        let groups = RunnerGroups::default();
        let queue = QueueName::from_stored("mail");
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let visit = |began, ended, reached| {
            let slots =
                [QueueDemand { queue: queue.clone(), free: 1, idle: 1, groups: groups.visit(&queue, 1, at(began)) }];
            let took = Duration::from_millis(ended - began);
            let fetched = fetched(&queue, reached, false, took);
            let due = groups.visited(&slots, &fetched, at(began), at(ended));
            (slots[0].groups.most, due.map(|due| due.duration_since(start).as_millis()))
        };
        assert_eq!(visit(0, 5, "m"), (MOST, Some(50)));
        assert_eq!(visit(49, 49, "m"), (0, Some(50)), "the groups rest");
        assert_eq!(visit(50, 70, "m"), (MOST, Some(1000)), "the visit came round to where it began");
        assert_eq!(visit(1000, 1020, ""), (MOST, Some(1100)), "a pause has an end");
        // A job that could start, but is locked: it is polled for like any other.
        let slots = [QueueDemand { queue: queue.clone(), free: 1, idle: 1, groups: groups.visit(&queue, 1, at(1100)) }];
        let could = fetched(&queue, "", true, Duration::from_millis(1));
        assert_eq!(groups.visited(&slots, &could, at(1100), at(1101)), None);
    }

    #[test]
    fn a_place_that_is_freed_during_a_fetch_is_for_the_next_one() {
        let groups = RunnerGroups::default();
        let queue = QueueName::from_stored("mail");
        let mut now = Instant::now();
        let mut tick = || {
            now += Duration::from_millis(1);
            now
        };
        let freed = [(queue.clone(), "a".to_owned())];
        groups.free(&freed, tick());
        let fetch =
            |at| vec![QueueDemand { queue: queue.clone(), free: 1, idle: 1, groups: groups.visit(&queue, 1, at) }];
        let (slots, began) = (fetch(tick()), tick());
        groups.free(&freed, tick());
        groups.visited(&slots, &fetched(&queue, "", false, Duration::ZERO), began, tick());
        let (slots, began) = (fetch(tick()), tick());
        assert_eq!(slots[0].groups.freed, ["a"], "the first fetch did not see the second place");
        groups.visited(&slots, &fetched(&queue, "", false, Duration::ZERO), began, tick());
        assert!(fetch(tick())[0].groups.freed.is_empty());
    }
}
