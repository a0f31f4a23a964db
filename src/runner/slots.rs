//! The slots of a queue: how much of it runs here, and what is fetched ahead.
//!
//! Where jobs are over faster than a fetch goes there and back, slots would stand empty most of the
//! time. So the runner fetches ahead what its queue works off in a moment: many jobs where they take
//! microseconds, none where they take minutes, so that no job lies here while another runner is free.
//! What lies here all the same for a second, since a slow job came in between or every thread was busy, is given back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::lease::Lease;
use super::track::Track;
use crate::ident::QueueName;
use crate::metrics::Load;
use crate::worker::Attempt;

/// As much is fetched ahead as is worked off in this time.
const AHEAD: Duration = Duration::from_millis(50);

/// The most jobs fetched ahead for one queue.
const MOST_AHEAD: usize = 4_000;

/// The most jobs of a queue in one fetch: so many make its way cheap, and more would only come later.
const LOOK: usize = 1_000;

/// How long a job may lie here before it is given back.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// How quickly the measured pace forgets.
const MEMORY: Duration = Duration::from_millis(100);

/// A job in the runner's hands that has not been started.
pub(super) struct Fetched {
    pub(super) lease: Arc<Lease>,
    pub(super) attempt: Arc<Attempt>,
    pub(super) track: Arc<Track>,
    pub(super) since: Instant,
}

/// A queue that the runner works, and how much of it at once.
pub(super) struct QueueSlots {
    pub(super) name: QueueName,
    slots: Mutex<Slots>,
}

struct Slots {
    concurrency: usize,
    running: usize,
    ahead: VecDeque<Fetched>,
    /// Whether a task that begins the jobs that lie here is on its way.
    is_called: bool,
    /// How many jobs fetches under way may bring.
    coming: usize,
    /// Whether the runner was told of jobs here since it last looked.
    is_told: bool,
    /// Whether the queue has a limit over all runners: what lay here would take others' places.
    is_limited: bool,
    /// With so many jobs left here and coming, a fetch is worth its way again.
    refill_at: usize,
    pace: Pace,
}

impl QueueSlots {
    pub(super) fn new(name: QueueName, concurrency: usize) -> Self {
        let pace = Pace::new(Instant::now());
        let ahead = VecDeque::new();
        let slots = Slots {
            concurrency,
            running: 0,
            ahead,
            is_called: false,
            coming: 0,
            is_told: false,
            is_limited: false,
            refill_at: 0,
            pace,
        };
        Self { name, slots: Mutex::new(slots) }
    }

    /// Changes how many jobs run at once. What runs beyond it goes on to its end.
    pub(super) fn set_concurrency(&self, concurrency: usize) {
        self.slots().concurrency = concurrency;
    }

    /// How many jobs to fetch now, for the free slots and ahead. They are [coming](Self::came) from here on.
    pub(super) fn want(&self) -> usize {
        let mut slots = self.slots();
        slots.is_told = false;
        let pace = slots.pace.ahead(Instant::now());
        let ahead = if slots.is_limited { 0 } else { pace };
        let worth_it = (ahead / 2).min(LOOK);
        slots.refill_at = ahead - worth_it;
        let provided = slots.ahead.len() + slots.coming;
        let free = slots.concurrency.saturating_sub(slots.running);
        let empty = free.saturating_sub(provided);
        if empty == 0 && provided > slots.refill_at {
            return 0;
        }
        let wanted = free.saturating_add(ahead).saturating_sub(provided).min(LOOK);
        slots.coming += wanted;
        wanted
    }

    /// Notes that jobs came here.
    pub(super) fn tell(&self) {
        self.slots().is_told = true;
    }

    /// Whether jobs came here since something was last [wanted](Self::want), and a look at this queue alone may take them.
    pub(super) fn is_told(&self) -> bool {
        let slots = self.slots();
        slots.is_told && !slots.is_limited
    }

    /// Notes that a fetch is over for which so many jobs were wanted: what it brought lies here.
    pub(super) fn came(&self, wanted: usize) {
        self.slots().coming -= wanted;
    }

    /// Notes whether the queue has a limit over all runners.
    pub(super) fn limit(&self, is_limited: bool) {
        self.slots().is_limited = is_limited;
    }

    /// Takes a fetched job, for the next slot that is free.
    pub(super) fn put(&self, job: Fetched) {
        self.slots().ahead.push_back(job);
    }

    /// Whether to call a puller: a job lies here, a slot is free, and none is on its way. One is from here on.
    pub(super) fn calls(&self) -> bool {
        let mut slots = self.slots();
        let calls = !slots.is_called && slots.running < slots.concurrency && !slots.ahead.is_empty();
        slots.is_called |= calls;
        calls
    }

    /// Notes that the puller that was called is here.
    pub(super) fn came_to_pull(&self) {
        self.slots().is_called = false;
    }

    /// The next job of a slot: one whose last job has ended, or one that is only now to be taken. `None`: there is no
    /// job for it, or the runner `is_stopping`, and the slot is free. Answers also whether there is room for a fetch.
    pub(super) fn next(&self, is_taken: bool, is_stopping: bool) -> (Option<Fetched>, bool) {
        let mut slots = self.slots();
        if is_taken {
            slots.end();
        }
        let may_go_on = !is_stopping && slots.running < slots.concurrency;
        let next = if may_go_on { slots.ahead.pop_front() } else { None };
        slots.running += usize::from(next.is_some());
        let has_room = match next {
            Some(_) => slots.ahead.len() + slots.coming == slots.refill_at,
            None => is_taken,
        };
        (next, has_room)
    }

    /// Frees a slot whose job ended, or whose task died. `true`: nothing lies here for it.
    pub(super) fn free(&self) -> bool {
        let mut slots = self.slots();
        slots.end();
        slots.ahead.is_empty()
    }

    /// When the oldest job that lies here has lain too long.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.slots().ahead.front().map(|job| job.since + LONGEST_WAIT)
    }

    /// Takes out everything that lies here.
    pub(super) fn clear(&self) -> VecDeque<Fetched> {
        std::mem::take(&mut self.slots().ahead)
    }

    /// How many jobs run and lie here.
    pub(super) fn here(&self) -> usize {
        let slots = self.slots();
        slots.running + slots.ahead.len()
    }

    /// What there is to do and to spare here.
    pub(super) fn load(&self) -> Load {
        let slots = self.slots();
        let free = slots.concurrency.saturating_sub(slots.running);
        Load { running: slots.running, free, buffered: slots.ahead.len() }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        // Nothing panics while it holds the lock.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn end(&mut self) {
        self.running -= 1;
        self.pace.ended += 1;
    }
}

/// Whether so many jobs run at once that the order within a look, or two, is nobody's concern.
pub(super) fn are_many(queues: &[QueueSlots]) -> bool {
    queues.iter().map(|queue| queue.slots().concurrency).fold(0, usize::saturating_add) >= LOOK
}

/// Resolves when something has lain in a queue for too long.
pub(super) async fn stale(queues: &[QueueSlots]) {
    match queues.iter().filter_map(QueueSlots::waits_until).min() {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// How many jobs a second end here, lately.
struct Pace {
    ended: u64,
    seen: u64,
    at: Instant,
    per_second: f64,
}

impl Pace {
    const fn new(now: Instant) -> Self {
        Self { ended: 0, seen: 0, at: now, per_second: 0.0 }
    }

    /// How many jobs are worked off in a moment.
    fn ahead(&mut self, now: Instant) -> usize {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        // Shorter than this tells nothing.
        if passed >= 0.001 {
            let latest = (self.ended - self.seen) as f64 / passed;
            let kept = (-passed / MEMORY.as_secs_f64()).exp();
            self.per_second = self.per_second * kept + latest * (1.0 - kept);
            self.seen = self.ended;
            self.at = now;
        }
        ((self.per_second * AHEAD.as_secs_f64()) as usize).min(MOST_AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_is_fetched_ahead_of_quick_jobs_and_nothing_of_slow_ones() {
        let start = Instant::now();
        let after = |ended: u64, time: Duration| {
            let mut pace = Pace::new(start);
            pace.ended = ended;
            pace.ahead(start + time)
        };
        assert_eq!(after(100_000, Duration::from_secs(1)), MOST_AHEAD);
        assert_eq!(after(2_000, Duration::from_secs(1)), 99);
        assert_eq!(after(10, Duration::from_secs(1)), 0);
        assert_eq!(after(0, Duration::from_secs(1)), 0);
    }

    #[test]
    fn the_pace_forgets() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        pace.ended = 10_000;
        assert!(pace.ahead(start + Duration::from_millis(100)) > 1_000);
        assert_eq!(pace.ahead(start + Duration::from_secs(2)), 0);
    }
}
