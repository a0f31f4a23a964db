//! Ctrl-C and SIGTERM during a demo. The first signal stops the demo, and the second one ends it at once.
//!
//! ```text
//! signals (a task) ─▶ stop ─┬─▶ steps that only wait for the database or the disk: dropped
//!                           └─▶ the work, and --keep: they end in order by themselves
//!                     hurry ──▶ everything is dropped
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use uniqueue::shutdown_signal;

use crate::failure::Failure;

/// How long the demo may take to end after an interrupt. A demo that is blocked writing to a full pipe cannot end by itself.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// The signals so far, and what they mean to the step that runs.
#[derive(Debug, Default)]
pub(super) struct Interrupt {
    stop: CancellationToken,
    hurry: CancellationToken,
    /// Whether the step that runs ends by itself after a signal.
    ends_itself: AtomicBool,
    is_throw_away: bool,
}

impl Interrupt {
    pub(super) fn new(is_throw_away: bool) -> Arc<Self> {
        Arc::new(Self { is_throw_away, ..Self::default() })
    }

    /// Returns at the first signal.
    pub(super) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Runs a step that ends by itself after the first signal, and then the demo in order.
    pub(super) async fn ending_itself<T>(&self, step: impl Future<Output = T>) -> T {
        self.ends_itself.store(true, Ordering::Release);
        let ended = step.await;
        self.ends_itself.store(self.stop.is_cancelled(), Ordering::Release);
        ended
    }

    /// Runs a demo to its end or until a signal drops it.
    pub(super) async fn watch<T>(
        self: Arc<Self>,
        demo: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let _signals = AbortOnDropHandle::new(tokio::spawn(Arc::clone(&self).signals()));
        tokio::select! {
            biased;
            ended = demo => ended,
            () = self.dropped() => Err(Failure::Interrupted { left: self.left() }),
        }
    }

    /// The state that an interrupted demo leaves.
    pub(super) fn left(&self) -> String {
        match self.is_throw_away {
            true => "the throw-away database and all results are removed".to_owned(),
            false => "jobs that were inserted stay in the queue, and the next demo works them".to_owned(),
        }
    }

    async fn dropped(&self) {
        self.stop.cancelled().await;
        if self.ends_itself.load(Ordering::Acquire) {
            self.hurry.cancelled().await;
        }
    }

    async fn signals(self: Arc<Self>) {
        shutdown_signal().await;
        self.stop.cancel();
        if self.ends_itself.load(Ordering::Acquire) {
            shutdown_signal().await;
            self.hurry.cancel();
        }
        tokio::time::sleep(STOP_TIMEOUT).await;
        std::process::exit(130);
    }
}
