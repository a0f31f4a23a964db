//! A bar on standard error for what takes a while.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows how far a command is, where standard error is a terminal.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// A bar for so many of something, or a spinner where nobody knows how many. `doing` is what stands before it:
    /// "cancelling".
    pub(crate) fn new(doing: &'static str, total: Option<u64>) -> Self {
        let is_shown = io::stderr().is_terminal();
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(total, target);
        let template = match total {
            Some(_) => "{msg} {wide_bar} {human_pos}/{human_len}, {eta} left",
            None => "{spinner} {msg} {human_pos}, {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(doing);
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar }
    }

    /// So many more are done.
    pub(crate) fn advance(&self, more: u64) {
        self.bar.inc(more);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
