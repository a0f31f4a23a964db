//! The status of a queue, for `queue list` and `top`.

use uniqueue::JobCount;
use uniqueue_admin::QueueInfo;

/// The status of a queue, by the rule of the view `queue_status`. A test compares the two.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Status {
    Paused,
    /// A worker or an operator holds it for a time.
    Held,
    /// It has unfinished jobs, and no live runner works them.
    NoRunner,
    AtItsLimit,
    Working,
    Waiting,
    Idle,
}

impl Status {
    pub(crate) fn of(queue: &QueueInfo) -> Self {
        let is_there = |jobs: JobCount| jobs.counted() > 0;
        let has_work = [queue.available, queue.running, queue.scheduled, queue.retryable].into_iter().any(is_there);
        let limit = queue.settings.limit.map(u64::from);
        if queue.settings.paused_at.is_some() {
            Self::Paused
        } else if queue.settings.held_until.is_some() {
            Self::Held
        } else if queue.runners == 0 && has_work {
            Self::NoRunner
        } else if limit.is_some_and(|limit| queue.running.counted() >= limit) {
            Self::AtItsLimit
        } else if is_there(queue.running) {
            Self::Working
        } else if is_there(queue.available) {
            Self::Waiting
        } else {
            Self::Idle
        }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Held => "held",
            Self::NoRunner => "no runner",
            Self::AtItsLimit => "at its limit",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Idle => "idle",
        }
    }
}
