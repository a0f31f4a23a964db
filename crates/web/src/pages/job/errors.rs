//! The errors of a job.

use maud::{Markup, PreEscaped, html};
use time::OffsetDateTime;
use uniqueue::{JobRow, JobState};

use crate::fields::url;
use crate::html::{Hostile, ago, at, block};
use crate::page::Page;

/// The most bytes of HTML of all errors.
const ERRORS: usize = 14_000;

/// The most bytes of one error, of which the last ones stand first.
const ERROR: usize = 4_000;

/// Whether its last error is what people come for.
pub(super) fn has_failed(job: &JobRow) -> bool {
    matches!(job.state, JobState::Discarded | JobState::Retryable)
}

/// The jobs of the kind whose last error has this code.
fn with_code(page: &Page, job: &JobRow, code: &str) -> String {
    page.link(&url("/jobs", &[("kind", job.kind.as_str()), ("code", code), ("since", "all")]))
}

/// The errors, the last one first.
pub(super) fn errors(page: &Page, job: &JobRow, whole: &str, now: OffsetDateTime) -> Markup {
    let mut html = String::new();
    let mut shown = 0;
    for error in job.errors.iter().rev() {
        let text = html! {
            p.note {
                "Attempt " (error.attempt) ", " (at(error.at)) " · " (ago(error.at, now))
                @if let Some(code) = &error.code { " · code " a.mono href=(with_code(page, job, code)) { (Hostile(code)) } }
                @if let Some(of_error) = &error.error_type { " · " span.mono { (Hostile(of_error)) } }
                @if error.retryable == Some(false) { " · not retryable" }
            }
            (block(&error.error, ERROR, whole))
        };
        if html.len() + text.0.len() > ERRORS {
            break;
        }
        html.push_str(&text.0);
        shown += 1;
    }
    html! {
        @if !job.errors.is_empty() {
            section.panel {
                h2 { "Errors" }
                (PreEscaped(html))
                @if shown < job.errors.len() { p.note { "The last " (shown) " of " (job.errors.len()) ". All of them: " code { (whole) } } }
            }
        }
    }
}
