//! The states of jobs in the words of OJS.

use uniqueue::{AttemptError, JobState};

/// OJS's name of a state.
pub(crate) const fn state_name(state: JobState) -> &'static str {
    match state {
        JobState::Running => "active",
        _ => state.as_str(),
    }
}

/// The state of a job. A job whose worker was lost comes back after a short wait. For OJS it is available at once.
pub(crate) fn state_of(state: JobState, errors: &[AttemptError]) -> &'static str {
    let is_lost = errors.last().is_some_and(|last| last.code.as_deref() == Some("lost"));
    match state {
        JobState::Retryable if is_lost => "available",
        _ => state_name(state),
    }
}
