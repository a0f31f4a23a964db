//! Telling an attempt to stop, and why.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// Why an attempt should stop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum StopReason {
    /// Somebody cancelled, deleted, or otherwise took the job away. What the worker says is dropped.
    Cancelled,
    /// The runner lost its lease: the job is, or will be, another's. What the worker says is
    /// dropped, and there is no grace.
    LeaseLost,
    /// The runner is stopping and has run out of patience. An `Ok` within the grace counts; else
    /// the job is given back without using up the attempt.
    Stopping,
    /// It ran longer than its [timeout](crate::Worker::timeout). An `Ok` within the grace counts;
    /// else the attempt failed.
    TimedOut,
}

/// One attempt's stop signal. The first reason stands.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    reason: OnceLock<StopReason>,
    /// Made for who first waits for it, or fires it: most attempts are over before.
    token: OnceLock<CancellationToken>,
    may_have_deleted: AtomicBool,
}

impl Stop {
    /// Asks the attempt to stop. Answers with the reason that stands.
    pub(crate) fn request(&self, reason: StopReason) -> StopReason {
        let stands = *self.reason.get_or_init(|| reason);
        self.signal().cancel();
        stands
    }

    /// Notes that the attempt deletes its job's row, by completing it in a transaction of its own.
    pub(crate) fn will_delete(&self) {
        self.may_have_deleted.store(true, Ordering::Release);
    }

    /// Whether the row is missing by the attempt's own doing, if it is missing.
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
        // The reason is set before the token fires, and nobody else can fire it.
        self.reason().unwrap_or(StopReason::Stopping)
    }

    /// A token that fires with the signal. A child: whoever cancels it stops only what listens to it.
    pub(crate) fn token(&self) -> CancellationToken {
        self.signal().child_token()
    }

    fn signal(&self) -> &CancellationToken {
        self.token.get_or_init(CancellationToken::new)
    }
}
