//! How much a runner works off: counted as results are recorded, told with each heartbeat.

use std::sync::atomic::{AtomicI64, Ordering};

use super::completer::Ended;
use crate::state::JobState;
use crate::store::{Counted, Verdict, Worked};

/// What became of the results under one lease, since it was taken.
#[derive(Debug, Default)]
pub(super) struct Pace {
    completed: AtomicI64,
    failed: AtomicI64,
}

impl Pace {
    /// Counts a batch that is recorded: `finished` is what became of it.
    pub(super) fn count(&self, batch: &[Ended], finished: &Counted) {
        let (mut completed, mut failed) = (0, 0);
        for ended in batch {
            match (finished.state(ended.result.id), &ended.result.verdict) {
                (Some(JobState::Completed), _) => completed += 1,
                // Completed before this result: in a transaction of the worker's own, or by a try whose answer was lost.
                (None, _) if ended.may_be_completed => completed += 1,
                (Some(_), Verdict::Retry { .. } | Verdict::Discard { .. }) => failed += 1,
                _ => {}
            }
        }
        self.completed.fetch_add(completed, Ordering::Relaxed);
        self.failed.fetch_add(failed, Ordering::Relaxed);
    }

    /// What there is to tell by now.
    pub(super) fn worked(&self) -> Worked {
        Worked { completed: self.completed.load(Ordering::Relaxed), failed: self.failed.load(Ordering::Relaxed) }
    }
}
