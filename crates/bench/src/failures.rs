//! The failures that end a bench early.

use crate::failure::Failure;

/// Ctrl-C or SIGTERM.
pub(crate) fn interrupted() -> Failure {
    Failure::Interrupted { left: "nothing is left of the bench in the database".to_owned() }
}

/// A side lost jobs, ran one twice or stored the wrong ones: its figures mean nothing.
pub(crate) fn wrong(problem: String) -> Failure {
    Failure::refused(
        format!("the bench found something wrong: {problem}"),
        "no other program may use its schema; report this",
    )
}
