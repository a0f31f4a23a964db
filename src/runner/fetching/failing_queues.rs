//! Queues whose fetches fail, though no job is at fault: fetched apart, so that they hold up no other queue.
//!
//! A fetch asks for all queues of the runner at once. Where it fails, each of them is fetched apart once, and again with
//! the others from then on if that works. One whose own fetch fails waits, longer each time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::client::connections::growing_wait::GrowingWait;
use crate::store::QueueDemand;
use crate::words::ident::QueueName;

#[derive(Default)]
pub(in crate::runner) struct FailingQueues(HashMap<QueueName, Failing>);

struct Failing {
    wait: GrowingWait,
    /// Not fetched before this.
    until: Instant,
}

impl FailingQueues {
    /// One of the failing queues, if its time has come; otherwise the queues that do not fail. Answers whether it is one.
    pub(in crate::runner) fn choose(&self, slots: &mut Vec<QueueDemand>, now: Instant) -> bool {
        let until = |slots: &QueueDemand| self.0.get(&slots.queue).map(|failing| failing.until);
        let due = slots.iter().enumerate().filter_map(|(place, slots)| Some((until(slots)?, place)));
        match due.filter(|(until, _)| *until <= now).min() {
            Some((_, place)) => {
                *slots = vec![slots.swap_remove(place)];
                true
            }
            None => {
                slots.retain(|slots| until(slots).is_none());
                false
            }
        }
    }

    /// How long until the time of one of them comes. One whose time has come waits for a slot.
    pub(in crate::runner) fn due_in(&self, now: Instant) -> Duration {
        let waits = self.0.values().filter(|failing| failing.until > now);
        waits.map(|failing| failing.until.saturating_duration_since(now)).min().unwrap_or(Duration::MAX)
    }

    /// Notes that a fetch of these queues worked.
    pub(in crate::runner) fn note_success(&mut self, slots: &[QueueDemand]) {
        if !self.0.is_empty() {
            self.0.retain(|queue, _| slots.iter().all(|slots| slots.queue != *queue));
        }
    }

    /// Notes that a fetch of these queues failed after so long.
    pub(in crate::runner) fn note_failure(&mut self, slots: &[QueueDemand], took: Duration, now: Instant) {
        for QueueDemand { queue, .. } in slots {
            match self.0.get_mut(queue) {
                // A failing queue takes at most a third of the producer's time.
                Some(failing) if slots.len() == 1 => failing.until = now + failing.wait.grow().max(took * 2),
                Some(_) => {}
                None => {
                    let _ = self.0.insert(queue.clone(), Failing { wait: GrowingWait::new(), until: now });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::GroupVisit;

    fn slots(names: &[&str]) -> Vec<QueueDemand> {
        let slots = |name: &&str| QueueDemand {
            queue: QueueName::from_stored(name),
            free: 1,
            idle: 1,
            groups: GroupVisit::none(),
        };
        names.iter().map(slots).collect()
    }

    fn chosen(failing: &FailingQueues, now: Instant) -> Vec<String> {
        let mut slots = slots(&["a", "b", "c"]);
        failing.choose(&mut slots, now);
        slots.iter().map(|slots| slots.queue.to_string()).collect()
    }

    #[test]
    fn queues_that_fail_together_are_fetched_apart_and_only_the_one_at_fault_waits() {
        let now = Instant::now();
        let mut failing = FailingQueues::default();
        failing.note_failure(&slots(&["a", "b", "c"]), Duration::ZERO, now);
        assert_eq!(chosen(&failing, now), ["a"]);
        failing.note_success(&slots(&["a"]));
        assert_eq!(chosen(&failing, now), ["b"]);
        failing.note_failure(&slots(&["b"]), Duration::from_secs(1), now);
        assert_eq!(chosen(&failing, now), ["c"]);
        failing.note_success(&slots(&["c"]));
        assert_eq!(chosen(&failing, now), ["a", "c"]);
        assert_eq!(failing.due_in(now), Duration::from_secs(2));
        assert_eq!(chosen(&failing, now + Duration::from_secs(2)), ["b"]);
    }
}
