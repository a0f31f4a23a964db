//! Whether jobs flow, so that looking for them now and then is cheaper for everybody than being told of each.
//!
//! A notification takes a lock that all commits of the database share. Where inserts must wait for each other they come
//! few at a time, and so a runner that is notified of each never has more than a few to take, however many there
//! are: what it finds does not tell it that it should not be notified. How often it is stirred does.

use std::time::{Duration, Instant};

/// So many crowds in a row make a runner busy.
const CROWDS: u32 = 3;

/// So many wake-ups and finds in a window do.
const MANY: u32 = 16;

/// A busy runner that was stirred so rarely in a window is so no more.
const FEW: u32 = 4;

const WINDOW: Duration = Duration::from_millis(32);

/// After so many looks in a row that found nothing it is not busy any more.
const MISSES: u32 = 6;

/// How long a busy runner waits between looks that found less than it could take.
pub(super) const GATHERING: Duration = Duration::from_millis(2);

/// The longest that it waits when it found nothing.
const LONGEST: Duration = Duration::from_millis(16);

/// What a runner met lately.
#[derive(Debug)]
pub(super) struct Flow {
    is_busy: bool,
    /// How many crowds came in a row.
    crowds: u32,
    /// How many looks found nothing since one did.
    misses: u32,
    /// Wake-ups and finds in this window.
    stirs: u32,
    window_began: Instant,
}

impl Flow {
    pub(super) const fn new(now: Instant) -> Self {
        Self { is_busy: false, crowds: 0, misses: 0, stirs: 0, window_began: now }
    }

    /// Jobs came, one by one or as a crowd. Answers whether the runner is busy.
    pub(super) fn found(&mut self, now: Instant, is_crowd: bool) -> bool {
        self.misses = 0;
        self.crowds = if is_crowd { self.crowds.saturating_add(1) } else { 0 };
        self.woken(now);
        self.is_busy
    }

    /// The runner was told of a job.
    pub(super) fn woken(&mut self, now: Instant) {
        if now.duration_since(self.window_began) > WINDOW {
            self.is_busy &= self.stirs >= FEW;
            (self.stirs, self.window_began) = (0, now);
        }
        self.stirs += 1;
        self.is_busy |= self.stirs >= MANY || self.crowds >= CROWDS;
    }

    /// Nothing was there. Answers how long a busy runner waits before it looks again. `None`: it is not busy,
    /// or no more.
    pub(super) fn missed(&mut self) -> Option<Duration> {
        if !self.is_busy || self.misses >= MISSES {
            (self.is_busy, self.crowds, self.misses) = (false, 0, 0);
            return None;
        }
        let gathering = (GATHERING * (1 << self.misses)).min(LONGEST);
        self.misses += 1;
        Some(gathering)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn jobs_that_come_one_by_one_but_quickly_make_a_runner_busy() {
        let mut now = Instant::now();
        let mut flow = Flow::new(now);
        let mut busy_after = 0;
        while !flow.found(now, false) {
            now += MS;
            busy_after += 1;
        }
        assert_eq!(busy_after, 15);
        // Also where others take what it is told of.
        let mut flow = Flow::new(now);
        (0..16).for_each(|_| flow.woken(now));
        assert!(flow.missed().is_some());
    }

    #[test]
    fn crowds_make_a_runner_busy_and_what_trickles_does_not() {
        let mut now = Instant::now();
        let mut flow = Flow::new(now);
        for _ in 0..100 {
            now += 5 * MS;
            assert!(!flow.found(now, false));
            assert_eq!(flow.missed(), None);
        }
        assert!(!flow.found(now, true));
        assert!(!flow.found(now, true));
        assert!(flow.found(now, true));
        // It notices when the flow has become a trickle, though it never misses twice.
        for _ in 0..20 {
            now += 12 * MS;
            flow.found(now, false);
            flow.missed();
        }
        assert_eq!(flow.missed(), None);
    }

    #[test]
    fn a_busy_runner_looks_ever_more_rarely_and_then_is_idle() {
        let now = Instant::now();
        let mut flow = Flow::new(now);
        let finds: Vec<_> = (0..3).map(|_| flow.found(now, true)).collect();
        assert_eq!(finds, [false, false, true]);
        let waits: Vec<_> = std::iter::from_fn(|| flow.missed()).collect();
        assert_eq!(waits, [2, 4, 8, 16, 16, 16].map(|ms| ms * MS));
        assert!(!flow.found(now + WINDOW * 2, false));
    }
}
