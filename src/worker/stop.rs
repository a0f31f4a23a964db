//! The stop signal of an attempt, with its reason.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// Why an attempt should stop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum StopReason {
    /// The job was cancelled, deleted, or given to another attempt. The worker's result is dropped.
    Cancelled,
    /// The runner lost its lease: another runner has, or will have, the job. The worker's result is dropped, and
    /// there is no grace.
    LeaseLost,
    /// The runner is stopping, and its stop timeout has passed. An `Ok` within the grace counts. Otherwise the job is
    /// given back without using up the attempt.
    Stopping,
    /// It ran longer than its [timeout](crate::Worker::timeout). An `Ok` within the grace counts. Otherwise the attempt
    /// has failed.
    TimedOut,
}

/// One attempt's stop signal. The first reason counts.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    reason: OnceLock<StopReason>,
    /// Made when it is first waited for, or fired: most attempts end before that.
    token: OnceLock<CancellationToken>,
    may_have_deleted: AtomicBool,
}

impl Stop {
    /// Asks the attempt to stop. Returns the reason that counts.
    pub(crate) fn request(&self, reason: StopReason) -> StopReason {
        let reason = *self.reason.get_or_init(|| reason);
        self.signal().cancel();
        reason
    }

    /// Records that the attempt deletes its job's row, by completing it in a transaction of its own.
    pub(crate) fn will_delete(&self) {
        self.may_have_deleted.store(true, Ordering::Release);
    }

    /// Whether the attempt itself may have deleted the row.
    pub(crate) fn may_have_deleted(&self) -> bool {
        self.may_have_deleted.load(Ordering::Acquire)
    }

    /// Why the attempt should stop. `None`: it may go on.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.reason.get().copied()
    }

    /// Resolves when the attempt should stop.
    pub(crate) async fn requested(&self) -> StopReason {
        self.signal().cancelled().await;
        // The reason is set before the token fires, and no other code can fire it.
        self.reason().unwrap_or(StopReason::Stopping)
    }

    /// A token that fires with the signal. A child, so that cancelling it does not fire the signal.
    pub(crate) fn token(&self) -> CancellationToken {
        self.signal().child_token()
    }

    fn signal(&self) -> &CancellationToken {
        self.token.get_or_init(CancellationToken::new)
    }
}
