//! Whether the row of a completed job stays, or is deleted at once.
//!
//! It is deleted where completed jobs are kept for no time, by the queue's own setting or else the runner's. The settings
//! are those of the last heartbeat. A change that is not known yet does no harm: a row that is kept too long is pruned,
//! and a row that the queue would now keep was to be deleted until a moment ago. A job whose claim covers `completed` and
//! has a deadline stays in any case, since its row is the claim. The pruner deletes it then.

use std::sync::{PoisonError, RwLock};

use crate::store::CompletedKept;
use crate::words::job::JobRow;
use crate::words::retention::Retention;
use crate::words::state::JobState;

/// The settings of the runner and its queues for completed jobs.
#[derive(Debug)]
pub(in crate::runner) struct CompletedRetention {
    deletes_by_default: bool,
    by_queue: RwLock<CompletedKept>,
}

impl CompletedRetention {
    pub(in crate::runner) fn new(retention: Retention, by_queue: CompletedKept) -> Self {
        let deletes_by_default = retention.completed.is_some_and(|keep| keep.is_zero());
        Self { deletes_by_default, by_queue: RwLock::new(by_queue) }
    }

    /// Takes the queues' settings as they are now.
    pub(in crate::runner) fn update(&self, by_queue: CompletedKept) {
        // Nothing panics while it holds the lock.
        let mut known = self.by_queue.write().unwrap_or_else(PoisonError::into_inner);
        if *known != by_queue {
            *known = by_queue;
        }
    }

    /// Whether the row is deleted when the job completes.
    pub(in crate::runner) fn deletes(&self, row: &JobRow) -> bool {
        let is_claim =
            row.unique_until.is_some() && row.unique_states.is_some_and(|states| states.contains(JobState::Completed));
        !is_claim && self.deletes_in(row.queue.as_str())
    }

    fn deletes_in(&self, queue: &str) -> bool {
        let CompletedKept { deleting, keeping } = &*self.by_queue.read().unwrap_or_else(PoisonError::into_inner);
        let is_in = |names: &[String]| names.iter().any(|name| name == queue);
        is_in(deleting) || (self.deletes_by_default && !is_in(keeping))
    }
}
