//! Everything that a command prints: text, tables, records and JSON, and questions and progress on standard error.

mod answer;
mod paint;
mod record;
mod table;
mod terminal;
mod text;

use std::io::{self, Write};
use std::ops::ControlFlow;

use serde::Serialize;
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};
use uniqueue::JobCount;

pub(crate) use self::answer::{Answer, Body, Form, Page};
pub(crate) use self::paint::{Style, choose_color, has_colors, paint, paint_error};
pub(crate) use self::record::{Cell, Record};
pub(crate) use self::table::{Column, List, Table, cut};
pub(crate) use self::terminal::{Bar, confirm};
pub(crate) use self::text::{
    next_page, own_command, printable, shell_word, stderr_width, width, without_urls, wrap, wrap_lines,
};
pub(crate) use uniqueue::format_duration;
pub(crate) use uniqueue_admin::thousands as count;

use crate::exit::Failure;

/// Prints a text. A closed standard output, as after `head`, is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_unless_closed(text).map(|_| ())
}

/// Prints a text. `Break` means that standard output is closed, so a command that prints for ever ends.
pub(crate) fn print_unless_closed(text: &str) -> Result<ControlFlow<()>, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(Failure::environment("cannot write to standard output", "check where it goes", error)),
    }
}

/// Sentences for standard output. On a terminal their lines end after words.
pub(crate) fn wrapped(text: &str) -> String {
    wrap_lines(text, width())
}

/// Prints sentences.
pub(crate) fn print_message(text: &str) -> Result<(), Failure> {
    print(&wrapped(text))
}

/// Prints a message on standard error. On a terminal its lines end after words.
pub(crate) fn print_to_stderr(message: &str) {
    // A closed standard error leaves no way to report that.
    let _ = io::stderr().write_all(format!("{}\n", wrap_lines(message, stderr_width())).as_bytes());
}

/// Prints a value as one JSON object on one line.
pub(crate) fn print_json_line(value: &impl Serialize) -> Result<(), Failure> {
    print(&json_lines([value])?)
}

/// Writes values as JSON, one a line.
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

/// Writes a number of jobs: `12,345`, an estimate as `~537 k`, a lower bound as `> 10 k`.
pub(crate) fn jobs(jobs: JobCount) -> String {
    if jobs.is_exact() { count(jobs.counted()) } else { jobs.to_string() }
}

/// Writes a count of things: `1 job`, `2,000 jobs`.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {thing}{ending}", count(number))
}

/// Writes how far a time is from now, by the database's clock: `5m 12s ago`, `in 2h`.
pub(crate) fn format_relative(at: OffsetDateTime, now: OffsetDateTime) -> String {
    match (now - at).try_into() {
        Ok(passed) => format!("{} ago", format_duration(passed)),
        Err(_) => format!("in {}", format_duration((at - now).unsigned_abs())),
    }
}

/// Writes a time as RFC 3339 in UTC, to the second, so that it can be pasted as an argument.
pub(crate) fn format_time(at: OffsetDateTime) -> String {
    // Beyond the year 9999 there is no time in UTC.
    let at = at.checked_to_offset(UtcOffset::UTC).unwrap_or(at);
    let to_the_second = at.replace_nanosecond(0).unwrap_or(at);
    to_the_second.format(&Rfc3339).unwrap_or_else(|_| to_the_second.to_string())
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::arguments::TimeArgument;

    #[test]
    fn one_thing_is_not_plural() {
        assert_eq!([0, 1, 2_000].map(|number| counted(number, "job")), ["0 jobs", "1 job", "2,000 jobs"]);
    }

    #[test]
    fn times_can_be_pasted_as_arguments() {
        let at = datetime!(2026-11-21 22:30:05.123456 UTC);
        assert_eq!(format_time(at), "2026-11-21T22:30:05Z");
        assert_eq!(format_time(at).parse(), Ok(TimeArgument::At(at.replace_nanosecond(0).unwrap())));
        assert_eq!(format_relative(at, at + time::Duration::seconds(312)), "5m 12s ago");
        assert_eq!(format_relative(at, at - time::Duration::hours(2)), "in 2h");
        // In UTC it is in the year 10000.
        assert_eq!(format_time(datetime!(9999-12-31 23:59:59 -23:59)), "9999-12-31T23:59:59-23:59");
    }
}
