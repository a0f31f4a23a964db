//! The problem of a value, before it is known which field the value is of.

use std::fmt;

use crate::error::Error;

/// A value that cannot be a key or make one. Unlike [`Error`] it can be cloned, so that a builder
/// can carry it until the key is used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Flaw {
    problem: &'static str,
    given: String,
}

impl Flaw {
    /// `given` is cut to 80 characters: the text may be a whole payload.
    pub(crate) fn new(problem: &'static str, given: &str) -> Self {
        Self { problem, given: given.chars().take(80).collect() }
    }

    /// The flaw of a unique key.
    pub(crate) fn in_key(self) -> Error {
        Error::InvalidKey { problem: self.problem, given: self.given }
    }

    /// The flaw of a job's `args` or `meta`.
    pub(crate) fn in_json(self, what: &'static str, kind: &str) -> Error {
        Error::InvalidJson { what, kind: kind.to_owned(), problem: self.to_string() }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.problem, self.given)
    }
}
