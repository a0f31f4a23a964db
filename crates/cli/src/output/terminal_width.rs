//! The widths of standard output and standard error.

use std::io::{self, IsTerminal};

use console::Term;

/// The width in columns: the terminal's, else that of the variable COLUMNS. `None` in a pipe without it.
pub(crate) fn width() -> Option<usize> {
    let size = Term::stdout().size_checked().filter(|_| io::stdout().is_terminal());
    let columns = size.map(|(_, columns)| usize::from(columns)).filter(|columns| *columns > 0);
    columns.or_else(|| std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0))
}

/// The width of standard error in columns. `None` unless it is a terminal.
pub(crate) fn stderr_width() -> Option<usize> {
    let size = Term::stderr().size_checked().filter(|_| io::stderr().is_terminal());
    size.map(|(_, columns)| usize::from(columns)).filter(|columns| *columns > 0)
}
