//! The answer for a name that no periodic job has.

use crate::output::Answer;

/// The answer for a name that no periodic job has.
pub(super) fn unknown(name: &str) -> Answer {
    Answer::not_fine(format!("no such periodic job: {name:?}; `uniqueue periodic list` lists them"))
}
