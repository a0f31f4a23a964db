//! Whether the row of a completed job stays, or goes at once.
//!
//! It goes where completed jobs are kept for no time, by the queue's own setting or else the
//! runner's. The settings are those of the last heartbeat. A change that is not known yet does no
//! harm: what is kept too long is pruned, and what a queue no longer deletes was to be deleted until
//! a moment ago. A job whose claim covers `completed` and has a deadline stays in any case, since its
//! row is the claim; the pruner takes it then.

use std::sync::{PoisonError, RwLock};

use crate::job::JobRow;
use crate::retention::Retention;
use crate::state::JobState;
use crate::store::CompletedKept;

#[derive(Debug)]
pub(super) struct Keeping {
    deletes_by_default: bool,
    said: RwLock<CompletedKept>,
}

impl Keeping {
    pub(super) fn new(retention: Retention, said: CompletedKept) -> Self {
        let deletes_by_default = retention.completed.is_some_and(|keep| keep.is_zero());
        Self { deletes_by_default, said: RwLock::new(said) }
    }

    /// Takes the queues' settings as they are now.
    pub(super) fn heed(&self, said: CompletedKept) {
        // Nothing panics while it holds the lock.
        let mut known = self.said.write().unwrap_or_else(PoisonError::into_inner);
        if *known != said {
            *known = said;
        }
    }

    /// Whether the row goes when the job completes.
    pub(super) fn deletes(&self, row: &JobRow) -> bool {
        let is_claim =
            row.unique_until.is_some() && row.unique_states.is_some_and(|states| states.contains(JobState::Completed));
        !is_claim && self.deletes_in(row.queue.as_str())
    }

    fn deletes_in(&self, queue: &str) -> bool {
        let CompletedKept { deleting, keeping } = &*self.said.read().unwrap_or_else(PoisonError::into_inner);
        let is_in = |names: &[String]| names.iter().any(|name| name == queue);
        is_in(deleting) || (self.deletes_by_default && !is_in(keeping))
    }
}
