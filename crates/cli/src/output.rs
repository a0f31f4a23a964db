//! Standard output: text, tables and JSON.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentLineStyle, LineStyle, Table, TableStyle};
use serde::Serialize;

use crate::failure::Failure;

/// Prints a text. A reader that went away, such as `head`, is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::environment("cannot write to standard output", "check where it goes", error))
        }
        _ => Ok(()),
    }
}

/// Prints a value as one JSON object.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::environment("cannot write JSON", "report this", error.into()))?;
    print(&format!("{text}\n"))
}

/// Prints a value as one JSON object on one line.
pub(crate) fn print_json_line(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::environment("cannot write JSON", "report this", error.into()))?;
    print(&format!("{text}\n"))
}

/// A table as psql draws it.
pub(crate) fn table(header: &[String], is_number: &[bool], rows: &[Vec<String>]) -> String {
    const LIKE_PSQL: TableStyle = TableStyle::new()
        .header_lines(ContentLineStyle::none().junction('|'))
        .header_separator(LineStyle::none().fill('-').junction('+'))
        .content_lines(ContentLineStyle::none().junction('|'));
    let mut table = Table::new();
    table.load_style(LIKE_PSQL).set_header(header);
    table.add_rows(rows);
    for (column, is_number) in table.column_iter_mut().zip(is_number) {
        if *is_number {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let count = match rows.len() {
        1 => "(1 row)".to_owned(),
        count => format!("({count} rows)"),
    };
    let lines = table.lines().map(|line| line.trim_end().to_owned()).chain([count]);
    lines.collect::<Vec<_>>().join("\n")
}

/// A count with its thousands set apart.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let texts = [0, 999, 1_000, 12_345, 1_234_567].map(count);
        assert_eq!(texts, ["0", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn table_looks_like_psql() {
        let rows = [vec!["completed".to_owned(), "12".to_owned()], vec!["discarded".to_owned(), "1".to_owned()]];
        let drawn = table(&["state".to_owned(), "jobs".to_owned()], &[false, true], &rows);
        let expected = " state     | jobs\n-----------+------\n completed |   12\n discarded |    1\n(2 rows)";
        assert_eq!(drawn, expected);
    }
}
