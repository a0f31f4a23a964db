//! The history of a job, as its row tells it, and its errors.

use maud::{Markup, PreEscaped, html};

use crate::pages::prelude::*;

/// The most failed attempts, the last ones.
const FAILED: usize = 25;

/// The most bytes of HTML of an event.
const TEXT: usize = 200;

/// An event of a job.
struct Moment {
    at: OffsetDateTime,
    /// The state whose colour it has.
    like: JobState,
    text: String,
}

/// The events of a job in their order.
pub(super) fn timeline(job: &JobRow, now: OffsetDateTime) -> Markup {
    let mut moments = vec![Moment { at: job.created_at, like: JobState::Pending, text: "inserted".to_owned() }];
    let mut add = |at, like, text| moments.push(Moment { at, like, text });
    let failed: Vec<_> = job.errors.iter().filter(|error| error.attempt > 0).collect();
    let left_out = failed.len().saturating_sub(FAILED);
    for error in &failed[left_out..] {
        let line = error.error.lines().next().unwrap_or_default();
        add(error.at, JobState::Discarded, format!("attempt {} failed: {line}", error.attempt));
    }
    if let Some(at) = job.updated_at {
        let all = if job.updates > 1 { format!(", the last of {} updates", job.updates) } else { String::new() };
        add(at, JobState::Scheduled, format!("updated by a duplicate{all}"));
    }
    if let Some(at) = job.attempted_at {
        add(at, JobState::Running, format!("attempt {} started", job.attempt));
    }
    if let Some(at) = job.finalized_at {
        // The time of the last error is taken a little later than that of the end.
        let at = failed.last().map_or(at, |error| at.max(error.at));
        let ran = job.attempted_at.and_then(|from| std::time::Duration::try_from(at - from).ok());
        let ran = match (job.state, ran) {
            (JobState::Completed, Some(ran)) => format!(" after {}", span(ran)),
            _ => String::new(),
        };
        add(at, job.state, format!("{}{ran}", job.state));
    }
    if !job.state.is_final() && job.state != JobState::Running {
        let text = match job.state {
            JobState::Retryable => "next attempt",
            JobState::Pending => "waits to be released",
            _ if job.scheduled_at > now => "due",
            _ => "due since",
        };
        add(job.scheduled_at, job.state, text.to_owned());
    }
    moments.sort_by_key(|moment| moment.at);
    html! {
        @if left_out > 0 { p.note { "Without the first " (left_out) " failed attempts." } }
        ol.timeline {
            @for moment in &moments {
                li class={ "state " (state_class(moment.like)) } { span { (Start(&moment.text, TEXT)) } " " span.note { (ago(moment.at, now)) } }
            }
            @if job.state == JobState::Running {
                li.state.s-running { span { "running" } " " @if let Some(at) = job.attempted_at { span.note { "since " (ago(at, now)) } } }
            }
        }
    }
}

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
