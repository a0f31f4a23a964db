//! A job in the model.

use support::prelude::*;

/// What the rules say about one job.
#[derive(Clone, Debug)]
pub(super) struct Modelled {
    pub(super) id: Uuid,
    pub(super) queue: String,
    pub(super) state: JobState,
    pub(super) states: StateSet,
    pub(super) yielded: bool,
    pub(super) until_start: bool,
    pub(super) discard_on_reentry: bool,
    pub(super) is_limited: bool,
    pub(super) is_expired: bool,
    pub(super) attempt: i16,
    pub(super) max_attempts: i16,
    pub(super) crashes: i16,
    pub(super) worker: Option<Uuid>,
    pub(super) run: i32,
    pub(super) replaced_by: Option<Uuid>,
}

impl Modelled {
    /// Whether the row says that it claims. An expired claim does so until an insert meets it.
    pub(super) fn is_marked(&self) -> bool {
        !self.yielded && self.states.contains(self.state)
    }

    pub(super) fn holds(&self) -> bool {
        self.is_marked() && !self.is_expired
    }

    pub(super) fn is_final(&self) -> bool {
        matches!(self.state, JobState::Completed | JobState::Cancelled | JobState::Discarded)
    }
}
