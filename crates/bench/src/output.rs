//! Everything that the bench prints: text, tables and JSON lines.

use std::io::{self, Write};

use indicatif::HumanCount;
use serde::Serialize;

use crate::failure::Failure;

/// Prints a text. A closed standard output, as after `head`, is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::environment("cannot write to standard output", "check where it goes", error))
        }
        _ => Ok(()),
    }
}

/// Prints a line on standard error.
pub(crate) fn print_to_stderr(line: &str) {
    // A closed standard error leaves no way to report that.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Prints a value as one JSON object on one line.
pub(crate) fn print_json_line(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::environment("cannot write JSON", "report this", error.into()))?;
    print(&format!("{text}\n"))
}

/// Draws a table in the style of psql. Numbers are aligned to the right.
pub(crate) fn table(header: &[String], is_number: &[bool], rows: &[Vec<String>]) -> String {
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].as_str());
        cells.chain([header[at].as_str()]).map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..header.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).zip(is_number).map(|((cell, width), is_number)| match is_number {
            true => format!(" {cell:>width$} "),
            false => format!(" {cell:<width$} "),
        });
        cells.collect::<Vec<_>>().join("|").trim_end().to_owned()
    };
    let rule = widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<_>>().join("+");
    let count = if rows.len() == 1 { "(1 row)".to_owned() } else { format!("({} rows)", rows.len()) };
    let head = [line(header), rule];
    let lines = head.into_iter().chain(rows.iter().map(|row| line(row))).chain([count]);
    lines.collect::<Vec<_>>().join("\n")
}

/// Writes a count with thousands separators.
pub(crate) fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_looks_as_in_psql() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let rows = [words(&["completed", "12"]), words(&["discarded", "1"])];
        let drawn = table(&words(&["state", "jobs"]), &[false, true], &rows);
        let expected = " state     | jobs\n-----------+------\n completed |   12\n discarded |    1\n(2 rows)";
        assert_eq!(drawn, expected);
    }
}
