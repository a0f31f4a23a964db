//! How a command ends, by its exit code: what it found, or the error before its end.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::output::{Style, paint_error, stderr_width, without_urls, wrap_lines};

/// The error of a command that did not run to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// An error of the library or of the database.
    #[error(transparent)]
    Uniqueue(#[from] uniqueue::Error),

    /// A wrong argument, or a problem outside the command.
    #[error("{problem}\nhint: {hint}")]
    Environment { problem: String, hint: String },

    /// The command was interrupted by Ctrl-C or SIGTERM.
    #[error("interrupted: {left}")]
    Interrupted {
        /// The state in which the command leaves the database.
        left: String,
    },
}

impl Failure {
    pub(crate) fn environment(problem: impl Into<String>, hint: impl Into<String>, source: io::Error) -> Self {
        Self::refused(format!("{}: {source}", problem.into()), hint)
    }

    pub(crate) fn refused(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Environment { problem: problem.into(), hint: hint.into() }
    }

    /// Prints the error on standard error and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let text = self.text();
        let (problem, hint) = text.split_once(HINT).map_or((text.as_str(), None), |(p, h)| (p, Some(h)));
        let mut lines = message("error:", Style::Bad, problem);
        lines.extend(hint.map(|hint| message("hint:", Style::Good, hint)));
        // A closed standard error leaves no way to report that.
        let _ = io::stderr().write_all(lines.as_bytes());
        match self {
            Self::Interrupted { .. } => ExitCode::from(130),
            Self::Uniqueue(_) | Self::Environment { .. } => ExitCode::from(2),
        }
    }

    /// The problem with its causes on one line, and the hints below.
    fn text(&self) -> String {
        match self {
            // For people the library writes its own causes and hints. Some are for the authors of a service as well.
            Self::Uniqueue(error) => format!("{error:?}").replace(", or call `client.migrate()`", ""),
            Self::Environment { .. } | Self::Interrupted { .. } => self.to_string(),
        }
    }
}

/// Stands between a problem and its hint.
const HINT: &str = "\nhint: ";

/// A line of a report, without the passwords of the command line. On a terminal its lines end after words.
fn message(title: &str, style: Style, text: &str) -> String {
    let wrapped = wrap_lines(&format!("{title} {}\n", without_urls(text)), stderr_width());
    wrapped.replacen(title, &paint_error(style, title), 1)
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Uniqueue(error.into())
    }
}

impl From<uniqueue::embedded::Error> for Failure {
    fn from(error: uniqueue::embedded::Error) -> Self {
        Self::Uniqueue(error.into())
    }
}

/// The result of a command that ran to its end. A later one is worse.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Verdict {
    /// Exit code 0.
    #[default]
    Fine,
    /// Exit code 4: `doctor` found nothing wrong, but its role may not see the queue.
    Unseen,
    /// Exit code 1: the command found something wrong, or could not change all that was asked for.
    NotFine,
    /// Exit code 3: `doctor` found something critical.
    Critical,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        Self::from(match verdict {
            Verdict::Fine => 0,
            Verdict::NotFine => 1,
            Verdict::Critical => 3,
            Verdict::Unseen => 4,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_for_the_user_of_the_command() {
        let schema = uniqueue::SchemaName::default();
        let text = Failure::from(uniqueue::Error::NotMigrated { schema, found: 3, needed: 9 }).text();
        assert!(text.ends_with("hint: run `uniqueue migrate --schema uniqueue`"), "{text}");
    }

    #[test]
    fn causes_stand_before_the_hints_and_each_once() {
        let failure = Failure::environment("cannot read: x", "look", io::Error::other("disk on fire"));
        assert_eq!(failure.text(), "cannot read: x: disk on fire\nhint: look");
        let failure = Failure::from(sqlx::Error::Io(io::Error::other("gone")));
        assert_eq!(failure.text().matches("gone").count(), 1, "{}", failure.text());
    }
}
