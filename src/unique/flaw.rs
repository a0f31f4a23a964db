//! The problem of a value, before it is known which field the value is of.

use uniqueue_policy::{InvalidLength, Problem, UnknownWord};

use crate::error::{Error, Result};

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
        Error::InvalidJson { what, kind: kind.to_owned(), problem: format!("{}: {:?}", self.problem, self.given) }
    }
}

/// A flaw of a policy's field. `problem` ends in the value.
pub(crate) fn invalid(field: &'static str, problem: impl Into<String>) -> Error {
    Error::InvalidPolicy { field, problem: problem.into() }
}

/// Fails with [`Error::InvalidPolicy`] unless the rule holds. `problem` is asked only on failure.
pub(crate) fn require<T: Into<String>>(holds: bool, field: &'static str, problem: impl FnOnce() -> T) -> Result<()> {
    if holds { Ok(()) } else { Err(invalid(field, problem())) }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        invalid(problem.member, format!("{problem}; hint: {}", problem.hint))
    }
}

impl From<UnknownWord> for Error {
    fn from(unknown: UnknownWord) -> Self {
        let given = unknown.given();
        match unknown.member() {
            "state" => Error::UnknownState { given: given.to_owned() },
            member => invalid(member, format!("must be one of {}: {given:?}", unknown.words().join(", "))),
        }
    }
}

impl From<InvalidLength> for Error {
    fn from(InvalidLength { problem, given }: InvalidLength) -> Self {
        Error::InvalidPeriod { problem, given }
    }
}
