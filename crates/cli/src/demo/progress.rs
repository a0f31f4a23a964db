//! How far the demo is: for people a bar, for the demo a signal.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::Notify;

/// Counts what is done, and shows it on standard error if that is a terminal.
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

    /// Says what goes on before the work begins.
    pub(super) fn say(&self, message: impl Into<String>) {
        self.bar.set_message(message.into());
    }

    /// The work begins: so many jobs.
    pub(super) fn begin(&self, total: u64) {
        self.total.store(total, Ordering::Release);
        // What went before says nothing of the pace.
        self.bar.reset();
        self.bar.set_length(total);
        if let Ok(style) = ProgressStyle::with_template("working {wide_bar} {human_pos}/{human_len} files, {eta} left")
        {
            self.bar.set_style(style);
        }
    }

    /// One more job has had its last attempt.
    pub(super) fn advance(&self) {
        self.bar.inc(1);
        let done = self.done.fetch_add(1, Ordering::AcqRel) + 1;
        if done >= self.total.load(Ordering::Acquire) {
            self.all_done.notify_one();
        }
    }

    /// Resolves when as many jobs are done as there were, or somewhat before their results are recorded.
    pub(super) async fn all_done(&self) {
        self.all_done.notified().await;
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
