//! How a command ends: by its exit code, which says what it found or the error before its end, or by Ctrl-C and SIGTERM.

use std::io::{self, Write};
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use uniqueue::shutdown_signal;

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

/// How long a command may take to stop after an interrupt. A command that is blocked writing to a full pipe cannot stop
/// by itself.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// A command that runs. In a box, so that the commands are not compiled into one function.
pub(crate) type CommandFuture<'a, T = Verdict> = Pin<Box<dyn Future<Output = Result<T, Failure>> + 'a>>;

/// Runs a command to its end or until an interrupt. An interrupt drops the command, and `left` says what it leaves.
pub(crate) async fn or_interrupted<T>(
    left: impl FnOnce() -> String,
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    // The command may not stop in time.
    let last_resort = tokio::spawn(async {
        shutdown_signal().await;
        tokio::time::sleep(STOP_TIMEOUT).await;
        std::process::exit(130);
    });
    let command: CommandFuture<'_, T> = Box::pin(command);
    let ended = tokio::select! {
        ended = command => ended,
        () = shutdown_signal() => Err(Failure::Interrupted { left: left() }),
    };
    last_resort.abort();
    ended
}

/// Runs a command that has no end of its own. An interrupt is its end, and no error.
pub(crate) async fn until_interrupted(
    command: impl Future<Output = Result<Verdict, Failure>>,
) -> Result<Verdict, Failure> {
    match or_interrupted(nothing_changed, command).await {
        Err(Failure::Interrupted { .. }) => Ok(Verdict::Fine),
        ended => ended,
    }
}

/// How long a command of a few statements may take. A connection that fell silent would hold it up for ever.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The same for a command of a few statements, which also ends when the database does not answer.
pub(crate) async fn or_unanswered<T>(
    left: fn() -> String,
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    answered(left, or_interrupted(left, command)).await
}

/// Waits for a few statements, as long as a database that answers may take.
pub(crate) async fn answered<T>(
    left: fn() -> String,
    statements: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(ANSWER_TIMEOUT, statements).await {
        Ok(ended) => ended,
        Err(_) => Err(Failure::refused(
            format!("the database did not answer within {ANSWER_TIMEOUT:?}: {}", left()),
            "see whether the connection fell silent, or the server is overloaded",
        )),
    }
}

/// The state that a command leaves that only reads, or that changes everything in one transaction.
pub(crate) fn nothing_changed() -> String {
    "nothing was changed".to_owned()
}

/// The state that a command leaves that may have sent its statement.
pub(crate) fn may_have_changed() -> String {
    "the change may have been made".to_owned()
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
