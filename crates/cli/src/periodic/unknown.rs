//! The answer for a name that no periodic job has.

use crate::output;
use crate::verdict::Verdict;

pub(super) fn unknown(name: &str) -> Verdict {
    output::print_to_stderr(&format!("no such periodic job: {name:?}; `uniqueue periodic list` lists them"));
    Verdict::NotFine
}
