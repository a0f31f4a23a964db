//! Counting jobs as they run.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::failures::{interrupted, wrong};

/// A run is broken when no job has run for this long.
const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// A count of jobs, and the sum of their numbers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Jobs {
    pub(crate) count: u64,
    pub(crate) sum: u64,
}

/// Counts the jobs that ran, and wakes the bench when the goal is reached.
pub(crate) struct Counter {
    done: AtomicU64,
    /// The sum of the numbers: it shows when one job ran twice and another did not.
    sum: AtomicU64,
    goal: AtomicU64,
    enough: Notify,
    /// A tenth of the goal, and when each was reached.
    tenth: u64,
    marks: Mutex<Vec<Instant>>,
}

impl Counter {
    pub(crate) fn new(goal: u64) -> Self {
        let (done, goal, tenth) = (AtomicU64::new(0), AtomicU64::new(goal), goal / 10);
        Self { done, sum: AtomicU64::new(0), goal, enough: Notify::new(), tenth, marks: Mutex::default() }
    }

    /// Counts a job with this number.
    pub(crate) fn count(&self, number: u64) {
        self.sum.fetch_add(number, Ordering::AcqRel);
        let done = self.done.fetch_add(1, Ordering::AcqRel) + 1;
        if self.tenth > 0 && done.is_multiple_of(self.tenth) {
            self.marks.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        }
        if done >= self.goal.load(Ordering::Acquire) {
            self.enough.notify_one();
        }
    }

    /// Sets a goal that was not known at the start.
    pub(crate) fn set_goal(&self, goal: u64) {
        self.goal.store(goal, Ordering::Release);
        if self.done() >= goal {
            self.enough.notify_one();
        }
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// The jobs that ran.
    pub(crate) fn jobs(&self) -> Jobs {
        Jobs { count: self.done(), sum: self.sum.load(Ordering::Acquire) }
    }

    /// Waits until the goal is reached.
    pub(crate) async fn enough(&self, interrupt: &CancellationToken) -> Result<(), Failure> {
        let mut enough = pin!(self.enough.notified());
        loop {
            let before = self.done();
            tokio::select! {
                () = &mut enough => return Ok(()),
                () = interrupt.cancelled() => return Err(interrupted()),
                () = tokio::time::sleep(STALL_TIMEOUT) => {}
            }
            if self.done() == before {
                return Err(wrong(format!("no job has run for {STALL_TIMEOUT:?}, after {before}")));
            }
        }
    }

    /// Jobs a second in the first and in the last tenth.
    pub(crate) fn tenths(&self, begun_at: Instant) -> Option<[f64; 2]> {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let [first, .., eighth, ninth] = marks.get(..10)? else { return None };
        let rate = |time: Duration| self.tenth as f64 / time.as_secs_f64().max(f64::EPSILON);
        Some([rate(first.duration_since(begun_at)), rate(ninth.duration_since(*eighth))])
    }
}
