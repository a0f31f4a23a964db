//! Standard output: text, tables and JSON; and standard error where people watch.

mod ask;
mod bar;
mod moment;
mod paint;
mod plain;
mod shell;
mod table;
mod wrap;

use std::io::{self, Write};
use std::ops::ControlFlow;

use serde::Serialize;

pub(crate) use self::ask::{Answer, ask};
pub(crate) use self::bar::Bar;
pub(crate) use self::moment::{Moment, Span, ago, span, time};
pub(crate) use self::paint::{ColorChoice, Style, choose_color, has_colors, paint, paint_error};
pub(crate) use self::plain::plain;
pub(crate) use self::shell::shell;
pub(crate) use self::table::{Cell, Column, Record, Table, width};
pub(crate) use self::wrap::wrapped;

use crate::failure::Failure;

/// Prints a text. A reader that went away, such as `head`, is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_on(text).map(|_| ())
}

/// Prints a text, and says whether anybody reads on: for what would print for ever.
pub(crate) fn print_on(text: &str) -> Result<ControlFlow<()>, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(Failure::environment("cannot write to standard output", "check where it goes", error)),
    }
}

/// Tells standard error a line, beside what is printed. Nobody can be told that standard error is gone.
pub(crate) fn tell(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Prints a value as one JSON object.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(no_json)?;
    print(&format!("{text}\n"))
}

/// Prints a value as one JSON object on one line.
pub(crate) fn print_json_line(value: &impl Serialize) -> Result<(), Failure> {
    print(&json_lines([value])?)
}

/// Values as JSON, one a line.
pub(crate) fn json_lines<T: Serialize>(values: impl IntoIterator<Item = T>) -> Result<String, Failure> {
    let mut text = String::new();
    for value in values {
        text.push_str(&serde_json::to_string(&value).map_err(no_json)?);
        text.push('\n');
    }
    Ok(text)
}

fn no_json(error: serde_json::Error) -> Failure {
    Failure::environment("cannot write JSON", "report this", error.into())
}

/// A table as psql draws it, with as many columns as the header has.
pub(crate) fn table(header: &[String], is_number: &[bool], rows: &[Vec<String>]) -> String {
    let columns = header.iter().zip(is_number).map(|(name, is_number)| match is_number {
        true => Column::number(name),
        false => Column::text(name),
    });
    let mut table = Table::new(columns);
    for row in rows {
        table.row(row.iter().map(Cell::from));
    }
    table.draw(None)
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
