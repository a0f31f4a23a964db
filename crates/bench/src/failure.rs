//! The error of a bench, its text and its exit code.

use std::io::{self, Write};
use std::process::ExitCode;

/// The error of a bench that did not run to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// An error of the library or of the database. Its `Debug` is for people.
    #[error("{0:?}")]
    Uniqueue(#[from] uniqueue::Error),

    /// A wrong argument, or a problem outside of the bench.
    #[error("{problem}\nhint: {hint}")]
    Environment { problem: String, hint: String },

    /// The bench was interrupted by Ctrl-C or SIGTERM.
    #[error("interrupted: {left}")]
    Interrupted {
        /// The state that the bench leaves.
        left: String,
    },
}

impl Failure {
    pub(crate) fn environment(problem: impl AsRef<str>, hint: impl Into<String>, source: io::Error) -> Self {
        Self::refused(format!("{}: {source}", problem.as_ref()), hint)
    }

    pub(crate) fn refused(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Environment { problem: problem.into(), hint: hint.into() }
    }

    /// Prints the error on standard error and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        // A closed standard error leaves no way to report that.
        let _ = io::stderr().write_all(format!("error: {self}\n").as_bytes());
        match self {
            Self::Interrupted { .. } => ExitCode::from(130),
            Self::Uniqueue(_) | Self::Environment { .. } => ExitCode::from(2),
        }
    }
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
