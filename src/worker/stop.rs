//! Telling an attempt to stop, and why.

use std::sync::OnceLock;

use tokio_util::sync::CancellationToken;

/// Why an attempt should stop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum StopReason {
    /// Somebody cancelled, deleted, or otherwise took the job away. What the worker says is dropped.
    Cancelled,
    /// The runner lost its lease: the job is, or will be, another's. What the worker says is dropped.
    LeaseLost,
    /// The runner is stopping and has run out of patience. The job is given back without using up
    /// the attempt.
    Stopping,
}

/// One attempt's stop signal. The first reason stands.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    reason: OnceLock<StopReason>,
    token: CancellationToken,
}

impl Stop {
    /// Asks the attempt to stop.
    pub(crate) fn request(&self, reason: StopReason) {
        let _ = self.reason.set(reason);
        self.token.cancel();
    }

    /// Resolves when the attempt should stop.
    pub(crate) async fn requested(&self) -> StopReason {
        self.token.cancelled().await;
        // The reason is set before the token fires.
        self.reason.get().copied().unwrap_or(StopReason::Stopping)
    }
}
