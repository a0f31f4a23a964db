//! Asking before something that cannot be taken back.

use std::io::{self, BufRead, IsTerminal, Write};

use super::paint::{Style, paint_error};
use crate::failure::Failure;

/// What came of a question.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    Yes,
    No,
    /// There is nobody to ask: standard input or standard error is no terminal.
    Nobody,
}

/// Asks on standard error and reads a line of standard input. Anything but a yes is a no.
pub(crate) fn ask(question: &str) -> Result<Answer, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(Answer::Nobody);
    }
    let failed = |error| Failure::environment("cannot ask", "give --yes", error);
    let question = format!("{} [y/N] ", paint_error(Style::Strong, question));
    io::stderr().write_all(question.as_bytes()).map_err(failed)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(failed)?;
    Ok(match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Answer::Yes,
        _ => Answer::No,
    })
}
