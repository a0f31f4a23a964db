//! The progress of the bench, for people at a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// One line on standard error, if that is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let is_shown = std::io::stderr().is_terminal();
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{elapsed_precise}] {prefix}{msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar }
    }

    /// Shows what is measured from now on.
    pub(crate) fn begin(&self, what: impl Into<String>) {
        self.bar.set_message("");
        self.bar.set_prefix(what.into());
    }

    pub(crate) fn round(&self, round: u32, rounds: u32, side: &str) {
        self.bar.set_message(format!(", round {round} of {rounds}, {side}"));
    }

    /// Hides the line while `write` writes to the terminal.
    pub(crate) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
