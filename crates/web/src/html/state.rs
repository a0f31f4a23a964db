//! States of jobs: a word with a dot in its colour.

use maud::{Markup, html};
use uniqueue::JobState;

/// The class that gives a state its colour.
pub(crate) fn state_class(state: JobState) -> String {
    format!("s-{state}")
}

/// A state.
pub(crate) fn state(state: JobState) -> Markup {
    html! { span class={ "state " (state_class(state)) } { (state.as_str()) } }
}
