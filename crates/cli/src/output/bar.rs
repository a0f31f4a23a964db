//! A progress bar on standard error.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows how far a command is, if standard error is a terminal.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// A bar up to a total, or a spinner if the total is unknown. `activity` stands before it, such as "cancelling".
    pub(crate) fn new(activity: &'static str, total: Option<u64>) -> Self {
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
        bar.set_message(activity);
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar }
    }

    /// Adds to what is done.
    pub(crate) fn advance(&self, count: u64) {
        self.bar.inc(count);
    }

    /// Shows a part of the total, 0 to 1.
    pub(crate) fn reach(&self, part: f64) {
        self.bar.set_position((part * self.bar.length().unwrap_or_default() as f64) as u64);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
