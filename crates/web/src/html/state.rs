//! States of jobs: a word with a dot in its colour.

use maud::{Markup, html};
use uniqueue::JobState;

/// The class that gives a state its colour.
pub(crate) fn state_class(state: JobState) -> &'static str {
    match state {
        JobState::Available => "s-available",
        JobState::Cancelled => "s-cancelled",
        JobState::Completed => "s-completed",
        JobState::Discarded => "s-discarded",
        JobState::Pending => "s-pending",
        JobState::Retryable => "s-retryable",
        JobState::Running => "s-running",
        _ => "s-scheduled",
    }
}

/// A state.
pub(crate) fn state(state: JobState) -> Markup {
    html! { span class={ "state " (state_class(state)) } { (state.as_str()) } }
}
