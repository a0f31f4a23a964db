//! Reads any bytes as the router does, for fuzzing: no body that a client sends may make it panic.

use uuid::Uuid;

use crate::{body, envelope, workflow};

/// Reads a body as a job and as a workflow.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let read = body::read(bytes).and_then(|document| {
        workflow::plan(&document, Uuid::nil()).map(drop).or_else(|_| envelope::read(&document).map(drop))
    });
    if let Err(problem) = read {
        let _ = problem.body("request");
    }
}
