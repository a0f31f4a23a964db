//! The errors of policies.

use uniqueue_policy::{InvalidLength, Problem};

use crate::error::{Error, Result};

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
        if let ("state", Some(given)) = (problem.member, &problem.item) {
            return Error::UnknownState { given: given.clone() };
        }
        let hint = if problem.hint.is_empty() { String::new() } else { format!("; hint: {}", problem.hint) };
        invalid(problem.member, format!("{problem}{hint}"))
    }
}

impl From<InvalidLength> for Error {
    fn from(InvalidLength { problem, given }: InvalidLength) -> Self {
        Error::InvalidPeriod { problem, given }
    }
}
