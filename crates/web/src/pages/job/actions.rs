//! The actions on a job.

use maud::{Markup, html};
use uniqueue::{JobId, JobRow, JobState};

use crate::access::Right;
use crate::html::submit;
use crate::page::Page;

/// The changes that the job's state allows. `holder`: the job that holds its key.
pub(super) fn actions(page: &Page, job: &JobRow, holder: Option<JobId>, waits_for_parents: bool) -> Markup {
    if !page.may(Right::Change) {
        return html! {};
    }
    let is_held_elsewhere = holder.is_some_and(|holder| holder != job.id);
    let holds = holder == Some(job.id);
    let to = page.link(&format!("/jobs/{}/change", job.id));
    let is_waiting =
        matches!(job.state, JobState::Available | JobState::Scheduled | JobState::Retryable | JobState::Pending);
    html! {
        section.panel.actions-panel {
            h2 { "Change" }
            @if is_held_elsewhere { (before_retry(job)) }
            form.row method="post" action=(to) {
                @if job.state.is_final() || matches!(job.state, JobState::Retryable | JobState::Scheduled) {
                    (submit("verb", "retry", if job.state == JobState::Scheduled { "Run now" } else { "Retry now" }, "primary"))
                }
                // A step that waits for its parents is released by hand only to run it without them.
                @if job.state == JobState::Pending { (submit("verb", "release", if waits_for_parents { "Release without waiting" } else { "Release" }, if waits_for_parents { "" } else { "primary" })) }
                @if is_waiting { (submit("verb", "cancel", "Cancel", "")) (submit("verb", "discard", "Discard", "")) }
                @if page.may(Right::Insert) && page.app.redact.is_none() {
                    a.button href=(page.link(&format!("/insert?from={}", job.id))) { "Edit args and insert again" }
                }
            }
            @if job.state == JobState::Running {
                (confirmed("End this run", &to, html! {
                    span { "Its worker is told to stop, and its result is dropped." }
                    (submit("verb", "cancel", "Cancel the running job", "danger"))
                    (submit("verb", "discard", "Discard the running job", "danger"))
                }))
            }
            @if holds {
                (confirmed("Release the claim", &to, html! {
                    span { "The job goes on, and another job with the key can be inserted beside it." }
                    (submit("verb", "release_claim", "Release the claim", "danger"))
                }))
            }
            @if is_waiting {
                form.row method="post" action=(to) {
                    label { "Run in " input name="minutes" type="number" min="0" max="525600" value="60" required; " minutes" }
                    (submit("verb", "reschedule", "Reschedule", ""))
                }
                form.row method="post" action=(to) {
                    label { "Priority " input name="priority" type="number" min="-32768" max="32767" value=(job.priority) required; }
                    (submit("verb", "priority", "Set", ""))
                }
            }
            @if page.may(Right::Delete) && job.state != JobState::Running {
                (confirmed("Delete", &page.link(&format!("/jobs/{}/delete", job.id)), html! {
                    span { "The job and its claim are gone for good." }
                    button.danger { "Delete this job" }
                }))
            }
        }
    }
}

/// A change that is opened first, and then made.
pub(super) fn confirmed(name: &str, to: &str, body: Markup) -> Markup {
    html! { details data-hold { summary { (name) } form.row method="post" action=(to) { (body) } } }
}

/// The effect of a retry while another job holds the key.
fn before_retry(job: &JobRow) -> Markup {
    let comes_back =
        job.unique_states.is_some_and(|states| states.contains(JobState::Available) && !states.contains(job.state));
    html! {
        p.note {
            @match (comes_back && job.discard_on_reentry, job.state.is_final()) {
                (false, _) => "A retry will go on without the claim, because another job holds the key.",
                (true, true) => {
                    "A retry will be refused, and the job stays as it is: another job holds the key, and the policy says "
                    code { "on_reentry: discard" } "."
                }
                (true, false) => {
                    "A retry will discard this job: another job holds the key, and the policy says " code { "on_reentry: discard" } "."
                }
            }
        }
    }
}
