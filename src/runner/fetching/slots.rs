//! The slots of a queue: how many of its jobs run here, and how many are fetched ahead.
//!
//! Where jobs end faster than a fetch takes, slots would stand empty most of the time. So the runner fetches ahead as many
//! jobs as its queue finishes in [`AHEAD`]: many where they take microseconds, none where they take minutes. A job that
//! waits here for a second is given back, for another runner may be free.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::budget::Share;
use crate::metrics::{self, QueueMeter};
use crate::runner::life::lease::RunnerLease;
use crate::runner::recording::result::Ended;
use crate::runner::telemetry::JobTelemetry;
use crate::store::RunResult;
use crate::words::ident::QueueName;
use crate::worker::Attempt;

/// As many jobs are fetched ahead as are finished in this time.
const AHEAD: Duration = Duration::from_millis(50);

/// The most jobs fetched ahead for one queue.
const MAX_AHEAD: usize = 4_000;

/// The most jobs of a queue in one fetch: enough to make its round trip cheap. More would only come later.
const MAX_FETCH: usize = 2_000;

/// How long a job may wait here before it is given back.
pub(in crate::runner) const MAX_WAIT: Duration = Duration::from_secs(1);

/// How quickly the measured throughput forgets.
const MEMORY: Duration = Duration::from_millis(100);

/// A fetched job that has not been started.
pub(in crate::runner) struct UnstartedJob {
    pub(in crate::runner) lease: Arc<RunnerLease>,
    pub(in crate::runner) attempt: Arc<Attempt>,
    pub(in crate::runner) telemetry: Arc<JobTelemetry>,
    pub(in crate::runner) since: Instant,
}

impl UnstartedJob {
    /// The end of its run, with this result.
    pub(in crate::runner) fn ended(&self, result: RunResult) -> Ended {
        Ended {
            lease: Arc::clone(&self.lease),
            stop: Arc::clone(&self.attempt.stop),
            telemetry: Arc::clone(&self.telemetry),
            result,
            may_be_completed: false,
            times: None,
        }
    }
}

/// A queue that the runner works, and how much of it at once.
pub(in crate::runner) struct QueueSlots {
    pub(in crate::runner) name: QueueName,
    /// The budget of which its jobs take slots as well.
    share: Option<Share>,
    slots: Mutex<Slots>,
    meter: QueueMeter,
}

struct Slots {
    concurrency: usize,
    running: usize,
    waiting: VecDeque<UnstartedJob>,
    /// Whether the queue has a limit or a rate over all runners: jobs fetched ahead would take places from other runners.
    is_limited: bool,
    /// Whether the queue has jobs that are not fetched ahead, such as those with one attempt.
    is_careful: bool,
    /// When this few jobs wait here, another fetch is worth its round trip.
    refill_at: usize,
    throughput: WorkRate,
}

impl QueueSlots {
    pub(in crate::runner) fn new(name: QueueName, concurrency: usize, share: Option<Share>) -> Self {
        let slots = Slots {
            concurrency,
            running: 0,
            waiting: VecDeque::new(),
            is_limited: false,
            is_careful: false,
            refill_at: 0,
            throughput: WorkRate::new(Instant::now()),
        };
        Self { meter: QueueMeter::new(&name), name, share, slots: Mutex::new(slots) }
    }

    /// Changes how many jobs run at once. Jobs that run beyond it go on to their end.
    pub(in crate::runner) fn set_concurrency(&self, concurrency: usize) {
        self.slots().concurrency = concurrency;
    }

    /// How many jobs to fetch now, for the free slots and ahead where that is allowed; and how many of them start at once.
    pub(in crate::runner) fn want(&self, may_fetch_ahead: bool) -> (usize, usize) {
        let mut slots = self.slots();
        let per_moment = slots.throughput.in_a_moment(Instant::now());
        let ahead = if slots.is_limited || slots.is_careful || !may_fetch_ahead { 0 } else { per_moment };
        slots.refill_at = ahead - (ahead / 2).min(MAX_FETCH);
        let waiting = slots.waiting.len();
        let free = slots.concurrency.saturating_sub(slots.running);
        let free = self.share.as_ref().map_or(free, |share| share.ask(free));
        if free <= waiting && waiting > slots.refill_at {
            return (0, 0);
        }
        let wanted = free.saturating_add(ahead).saturating_sub(waiting).min(MAX_FETCH);
        (wanted, free.saturating_sub(waiting).min(wanted))
    }

    /// Notes whether the queue has a limit or a rate over all runners.
    pub(in crate::runner) fn limit(&self, is_limited: bool) {
        self.slots().is_limited = is_limited;
    }

    /// Notes whether the queue has jobs that are not fetched ahead.
    pub(in crate::runner) fn be_careful(&self, is_careful: bool) {
        self.slots().is_careful = is_careful;
    }

    /// Adds a fetched job, for the next slot that is free. Suspects come first.
    pub(in crate::runner) fn put(&self, job: UnstartedJob) {
        let mut slots = self.slots();
        if job.attempt.row.crashes > 0 {
            slots.waiting.push_front(job);
        } else {
            slots.waiting.push_back(job);
        }
    }

    /// Takes the next job and a slot for it. `None`: no job waits here, or no slot is free.
    pub(in crate::runner) fn start(&self) -> Option<UnstartedJob> {
        self.slots().start(self.share.as_ref())
    }

    /// Ends the job of a slot and takes the next one for it. `None`: there is none, or the runner `is_stopping`, and the
    /// slot is free. Answers also whether there is room for a fetch.
    pub(in crate::runner) fn next(&self, is_stopping: bool) -> (Option<UnstartedJob>, bool) {
        let mut slots = self.slots();
        slots.end(self.share.as_ref());
        let next = if is_stopping { None } else { slots.start(self.share.as_ref()) };
        let has_room = next.is_none() || slots.waiting.len() == slots.refill_at;
        (next, has_room)
    }

    /// Frees a slot whose task died.
    pub(in crate::runner) fn free(&self) {
        self.slots().end(self.share.as_ref());
    }

    /// When the job that waits here longest has waited too long.
    pub(in crate::runner) fn waits_until(&self) -> Option<Instant> {
        let slots = self.slots();
        // Suspects come first, whenever they were fetched. The others are in the order of their fetches.
        let is_suspect = |job: &&UnstartedJob| job.attempt.row.crashes > 0;
        let first = slots.waiting.iter().find(|job| !is_suspect(job));
        let suspects = slots.waiting.iter().take_while(is_suspect);
        suspects.chain(first).map(|job| job.since + MAX_WAIT).min()
    }

    /// Takes out every job that waits here.
    pub(in crate::runner) fn clear(&self) -> VecDeque<UnstartedJob> {
        std::mem::take(&mut self.slots().waiting)
    }

    /// How many jobs run and wait here.
    pub(in crate::runner) fn count(&self) -> usize {
        let slots = self.slots();
        slots.running + slots.waiting.len()
    }

    /// Tells metrics the load of the queue.
    pub(in crate::runner) fn tell_load(&self) {
        if metrics::IS_COUNTING {
            let slots = self.slots();
            let free = slots.concurrency.saturating_sub(slots.running);
            self.meter.set(slots.running, free, slots.waiting.len());
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        // Nothing panics while it holds the lock.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn start(&mut self, share: Option<&Share>) -> Option<UnstartedJob> {
        if self.running >= self.concurrency || self.waiting.is_empty() || !share.is_none_or(Share::take) {
            return None;
        }
        let job = self.waiting.pop_front()?;
        self.running += 1;
        Some(job)
    }

    fn end(&mut self, share: Option<&Share>) {
        if let Some(share) = share {
            share.release();
        }
        self.running -= 1;
        self.throughput.ended += 1;
    }
}

/// How many jobs a second end here, lately.
struct WorkRate {
    ended: u64,
    seen: u64,
    at: Instant,
    per_second: f64,
}

impl WorkRate {
    const fn new(now: Instant) -> Self {
        Self { ended: 0, seen: 0, at: now, per_second: 0.0 }
    }

    /// How many jobs are finished in a moment.
    fn in_a_moment(&mut self, now: Instant) -> usize {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        // A shorter time tells nothing.
        if passed >= 0.001 {
            let latest = (self.ended - self.seen) as f64 / passed;
            let kept = (-passed / MEMORY.as_secs_f64()).exp();
            self.per_second = self.per_second * kept + latest * (1.0 - kept);
            self.seen = self.ended;
            self.at = now;
        }
        ((self.per_second * AHEAD.as_secs_f64()) as usize).min(MAX_AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_is_fetched_ahead_of_quick_jobs_and_nothing_of_slow_ones() {
        let start = Instant::now();
        let after = |ended: u64, time: Duration| {
            let mut throughput = WorkRate::new(start);
            throughput.ended = ended;
            throughput.in_a_moment(start + time)
        };
        assert_eq!(after(100_000, Duration::from_secs(1)), MAX_AHEAD);
        assert_eq!(after(2_000, Duration::from_secs(1)), 99);
        assert_eq!(after(10, Duration::from_secs(1)), 0);
        assert_eq!(after(0, Duration::from_secs(1)), 0);
    }

    #[test]
    fn the_throughput_forgets() {
        let start = Instant::now();
        let mut throughput = WorkRate::new(start);
        throughput.ended = 10_000;
        assert!(throughput.in_a_moment(start + Duration::from_millis(100)) > 1_000);
        assert_eq!(throughput.in_a_moment(start + Duration::from_secs(2)), 0);
    }
}
