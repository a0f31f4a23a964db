//! Errors of an embedded server.

use std::{error, fmt, io};

/// The embedded PostgreSQL could not be found, started or stopped.
///
/// `Display` is for a log: the problem and the hint. `Debug` is for people, as `main` prints the error that it returns.
pub struct Error {
    /// The problem, ending in the value at fault.
    problem: String,
    /// The package to install, or the variable to set.
    hint: String,
    /// The error of the operating system, if there is one.
    source: Option<io::Error>,
}

/// The answer of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; hint: {}", self.problem, self.hint)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)?;
        self.source.as_ref().map_or(Ok(()), |source| write!(f, ": {source}"))?;
        write!(f, "\nhint: {}", self.hint)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// The hint when no binaries are found.
pub(super) const INSTALL_HINT: &str = "install PostgreSQL
  Debian, Ubuntu:  sudo apt-get install postgresql
  macOS:           brew install postgresql@18
  Fedora:          sudo dnf install postgresql-server
  Alpine:          apk add postgresql
  others:          see postgresql.org/download, or install npm, which fetches it on the next start
or set PG_BINDIR to the directory with initdb and postgres, or DATABASE_URL to a running database";

pub(super) fn failure(problem: impl Into<String>, hint: impl Into<String>) -> Error {
    Error { problem: problem.into(), hint: hint.into(), source: None }
}

/// For `map_err`: the same with the error of the operating system.
pub(super) fn failure_from(problem: impl Into<String>, hint: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let (problem, hint) = (problem.into(), hint.into());
    move |source| Error { problem, hint, source: Some(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_is_fit_for_main_and_display_for_a_log() {
        let error = failure_from("cannot start", "look")(io::Error::other("no such file"));
        assert_eq!(format!("{error:?}"), "cannot start: no such file\nhint: look");
        assert_eq!(error.to_string(), "cannot start; hint: look");
    }
}
