//! The demo's progress: a bar for the user, and a signal at the end of the work.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::Notify;

/// Counts finished jobs, and shows them on standard error if that is a terminal.
pub(super) struct Progress {
    bar: ProgressBar,
    done: AtomicU64,
    total: AtomicU64,
    all_done: Notify,
}

impl Progress {
    /// Shows nothing if `is_quiet`, or if standard error is not a terminal.
    pub(super) fn new(is_quiet: bool) -> Self {
        let is_shown = !is_quiet && std::io::stderr().is_terminal();
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, done: AtomicU64::new(0), total: AtomicU64::new(0), all_done: Notify::new() }
    }

    /// Shows the current step.
    pub(super) fn set_message(&self, message: impl Into<String>) {
        self.bar.set_message(message.into());
    }

    /// Starts the bar for this number of jobs.
    pub(super) fn start_work(&self, total: u64) {
        self.total.store(total, Ordering::Release);
        // The earlier steps must not count towards the estimate.
        self.bar.reset();
        self.bar.set_length(total);
        if let Ok(style) = ProgressStyle::with_template("working {wide_bar} {human_pos}/{human_len} files, {eta} left")
        {
            self.bar.set_style(style);
        }
    }

    /// Counts a job that has had its last attempt.
    pub(super) fn advance(&self) {
        self.bar.inc(1);
        let done = self.done.fetch_add(1, Ordering::AcqRel) + 1;
        if done >= self.total.load(Ordering::Acquire) {
            self.all_done.notify_one();
        }
    }

    /// Returns when every job has had its last attempt. The last results may not be recorded yet.
    pub(super) async fn all_done(&self) {
        self.all_done.notified().await;
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
