//! Confirmation of a change before it is made.

use std::io::{self, BufRead, IsTerminal, Write};

use super::paint::{Style, paint_error};
use super::wrap::{stderr_width, wrap_lines};
use crate::exit::Failure;

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
