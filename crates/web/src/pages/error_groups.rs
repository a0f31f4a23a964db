//! The failed jobs of a kind, grouped by the message of their last error.

use uniqueue_admin::FailingError;

use crate::pages::prelude::*;

/// The most groups on the page.
const GROUPS: usize = 30;

/// The groups of a kind's failed jobs, each with a retry and a cancellation of its jobs.
pub(super) async fn section(page: &Page, kind: &str) -> Result<Markup, Failure> {
    let groups = match page.admin().failing_errors(kind).timeout(LOOK_UP).await {
        Ok(groups) => groups,
        // There are too many failed jobs of all kinds.
        Err(error) if error.is_statement_timeout() => {
            return Ok(html! {
                h2 { "Errors" }
                p.note { "The failed jobs were not read in time." }
            });
        }
        Err(error) => return Err(error.into()),
    };
    let now = page.now().await?;
    let is_shown = page.app.redact.is_none();
    let may = page.may(Right::Change) && is_shown;
    let rows: Rows = fitting(&groups, GROUPS, |group| {
        html! { tr {
            th scope="row" class="mono wrap l1" {
                @if is_shown { a.plain href=(jobs(page, kind, group)) { (Cell(&group.error_pattern)) } } @else { span.note { "hidden" } }
            }
            td.num.r1 data-is="jobs" { (grouped(group.retryable + group.discarded)) }
            td.num.r2 { @if let Some(at) = group.last_failed_at { (ago(at, now)) } }
            td.nowrap.l2 { (job_link(page, group.last_job)) }
            @if may { td.nowrap.own-line { (change(page, kind, group)) } }
        } }
    });
    Ok(html! {
        @if !groups.is_empty() {
            h2 { "Errors" }
            (rows.table(html! { th { "Message" } th.num { "Jobs" } th.num { "Last" } th { "Last job" } @if may { th { span.sr { "Change" } } } }))
            (rows.note())
            p.note { "Jobs that wait for a retry or were discarded. Numbers and ids are left out of the messages." }
        }
    })
}

/// The filter of a group's jobs.
fn filter<'a>(kind: &'a str, group: &'a FailingError) -> [(&'static str, &'a str); 5] {
    let pattern = group.error_pattern.as_str();
    [("kind", kind), ("state", "retryable"), ("state", "discarded"), ("since", "all"), ("error-pattern", pattern)]
}

fn jobs(page: &Page, kind: &str, group: &FailingError) -> String {
    page.link(&url("/jobs", &filter(kind, group)))
}

/// The buttons of a group. Each leads to a plan, which asks before it changes anything.
fn change(page: &Page, kind: &str, group: &FailingError) -> Markup {
    html! {
        form.inline method="post" action=(page.link("/bulk")) {
            input type="hidden" name="whole" value="all";
            @for (name, value) in filter(kind, group) { input type="hidden" name=(name) value=(value); }
            button name="verb" value="retry" { "Retry" } " "
            button name="verb" value="cancel" { "Cancel" }
        }
    }
}
