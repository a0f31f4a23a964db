//! A progress bar and questions on standard error, where it is a terminal.

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::paint::{Style, paint_error};
use super::text::{stderr_width, wrap_lines};
use crate::exit::Failure;

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

/// Asks on standard error and reads a line of standard input. Every answer but `y` and `yes` means no.
/// Without a terminal it refuses `what`, such as "the change".
pub(crate) fn confirm(question: &str, what: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let problem = format!("{what} needs confirmation, and there is no terminal");
        return Err(Failure::refused(problem, "check with --dry-run, then give --yes"));
    }
    let failed = |error| Failure::environment("cannot ask for confirmation", "give --yes", error);
    // With the answer's place on the same line as the last word.
    let question = wrap_lines(&format!("{question} [y/N]"), stderr_width());
    let question = question.strip_suffix("[y/N]").unwrap_or(&question);
    let question = format!("{}[y/N] ", paint_error(Style::Strong, question));
    io::stderr().write_all(question.as_bytes()).map_err(failed)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(failed)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}
