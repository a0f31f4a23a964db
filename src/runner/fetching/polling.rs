//! When the producer sleeps, and whether inserts wake it.
//!
//! States: *busy*, where the runner polls every few milliseconds and no insert notifies; and *idle*, where inserts
//! notify and polls become rare. A notification takes a lock that all commits of the database share, so a runner that
//! jobs keep coming to must not ask for one with each. How many it finds does not tell: where inserts wait for that lock
//! they come few at a time, however many there are. How often the runner is woken does.
//!
//! Falling asleep misses no job: the runner first tells the database that it is idle, so that inserts notify, and then
//! fetches once more. An insert that was under way meanwhile may commit later still, so the first polls come quickly, and
//! then ever more rarely.

use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::runner::shared::Shared;

/// The wait before the first poll of a runner that found nothing.
const FIRST_POLL: Duration = Duration::from_millis(10);

/// The longest wait where a queue is at its limit: a place that another runner's job frees is not notified.
const MAX_HELD_BACK_POLL: Duration = Duration::from_secs(1);

/// How long a busy runner waits between fetches that found less than it could take: a fetch for every few jobs would cost
/// more than the jobs do.
const GATHERING: Duration = Duration::from_millis(2);

/// Decides how long the producer sleeps, and whether inserts notify.
pub(in crate::runner) struct Polling<'a> {
    shared: &'a Shared,
    /// The lease of which the database knows that inserts should notify it.
    idle_as: Option<Uuid>,
    activity: Activity,
    next_poll: Duration,
}

impl<'a> Polling<'a> {
    pub(in crate::runner) fn new(shared: &'a Shared) -> Self {
        Self { shared, idle_as: None, activity: Activity::new(Instant::now()), next_poll: FIRST_POLL }
    }

    /// A fetch found jobs: all that were wanted (`is_full`), or fewer. A busy runner then waits a moment for more.
    pub(in crate::runner) async fn found(&mut self, is_full: bool, is_held_back: bool) {
        self.next_poll = FIRST_POLL;
        if self.activity.note(Instant::now()) {
            self.gather(if is_full { Duration::ZERO } else { GATHERING }, is_held_back).await;
        }
    }

    /// A fetch found nothing: sleeps until there may be jobs, or for so long at most.
    pub(in crate::runner) async fn sleep(&mut self, is_held_back: bool, at_most: Duration) {
        if self.activity.is_busy(Instant::now()) {
            return self.gather(GATHERING, is_held_back).await;
        }
        let Shared { leases, options, signals, .. } = self.shared;
        // A new lease is a new row, which does not know of the old one's sleep.
        if options.is_listening && self.idle_as != Some(leases.current().id) && self.tell(true).await {
            // Register interest before fetching again: that fetch finds earlier inserts, and later inserts notify.
            return;
        }
        let interval = options.poll_interval;
        let longest = if is_held_back { interval.min(MAX_HELD_BACK_POLL) } else { interval };
        let poll = self.next_poll.min(longest);
        self.next_poll = (self.next_poll * 2).min(longest);
        tokio::select! {
            () = signals.stopping.cancelled() => {}
            () = signals.wake.notified() => {
                self.next_poll = FIRST_POLL;
                self.activity.note(Instant::now());
            }
            () = signals.freed.notified() => {}
            () = tokio::time::sleep(poll.min(at_most)) => {}
        }
    }

    /// Waits for more jobs without notifications; or, where a queue is at its limit, for a place in it.
    async fn gather(&mut self, gathering: Duration, is_held_back: bool) {
        if self.idle_as.is_some() {
            self.tell(false).await;
        }
        if !gathering.is_zero() {
            let signals = &self.shared.signals;
            tokio::select! {
                () = signals.stopping.cancelled() => {}
                () = signals.freed.notified(), if is_held_back => {}
                () = tokio::time::sleep(gathering) => {}
            }
        }
    }

    /// Tells the database whether inserts should notify. A failure costs wake-ups, or a NOTIFY too many, until the next
    /// time; never a job.
    async fn tell(&mut self, is_idle: bool) -> bool {
        let shared = self.shared;
        let id = shared.leases.current().id;
        let telling = shared.ask(async |store| store.set_runner_idle(id, is_idle).await);
        let told = tokio::select! {
            told = telling => told,
            // A database that does not answer must not hold up a stop.
            () = shared.signals.stopping.cancelled() => return false,
        };
        if let Err(error) = &told {
            tracing::debug!(%error, "could not tell whether the runner is idle");
        }
        self.idle_as = (is_idle && told.is_ok()).then_some(id);
        told.is_ok()
    }
}

/// Whether a runner is busy: how often it was woken, or found jobs, lately.
#[derive(Debug)]
struct Activity {
    is_busy: bool,
    /// Wake-ups and finds in this window.
    count: u32,
    window_began: Instant,
}

impl Activity {
    const WINDOW: Duration = Duration::from_millis(32);
    /// This many in a window make a runner busy.
    const MANY: u32 = 16;
    /// A busy runner with fewer in a window is idle again.
    const FEW: u32 = 4;

    const fn new(now: Instant) -> Self {
        Self { is_busy: false, count: 0, window_began: now }
    }

    /// Counts a wake-up or a find. Answers whether the runner is busy.
    fn note(&mut self, now: Instant) -> bool {
        self.begin_window(now);
        self.count += 1;
        self.is_busy |= self.count >= Self::MANY;
        self.is_busy
    }

    fn is_busy(&mut self, now: Instant) -> bool {
        self.begin_window(now);
        self.is_busy
    }

    fn begin_window(&mut self, now: Instant) {
        if now.duration_since(self.window_began) > Self::WINDOW {
            self.is_busy &= self.count >= Self::FEW;
            (self.count, self.window_began) = (0, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn jobs_that_come_one_by_one_but_quickly_make_a_runner_busy() {
        let mut now = Instant::now();
        let mut activity = Activity::new(now);
        let mut idle_for = 0;
        while !activity.note(now) {
            now += MS;
            idle_for += 1;
        }
        assert_eq!(idle_for, 15);
        assert!(activity.is_busy(now + 10 * MS));
    }

    #[test]
    fn a_trickle_never_makes_a_runner_busy_and_makes_a_busy_one_idle() {
        let mut now = Instant::now();
        let mut activity = Activity::new(now);
        for _ in 0..100 {
            now += 5 * MS;
            assert!(!activity.note(now));
        }
        for _ in 0..16 {
            activity.note(now);
        }
        assert!(activity.is_busy(now));
        for _ in 0..20 {
            now += 12 * MS;
            activity.note(now);
        }
        assert!(!activity.is_busy(now));
    }

    #[test]
    fn a_busy_runner_that_finds_nothing_is_idle_after_two_windows() {
        let now = Instant::now();
        let mut activity = Activity::new(now);
        for _ in 0..16 {
            activity.note(now);
        }
        assert!(activity.is_busy(now + Activity::WINDOW));
        assert!(activity.is_busy(now + Activity::WINDOW + MS), "the window that ended was full");
        assert!(!activity.is_busy(now + 3 * Activity::WINDOW));
    }
}
