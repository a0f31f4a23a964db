//! Kinds with failed jobs, and the failed jobs of a kind, grouped by the message of their last error.

use uniqueue_admin::{FailingCode, FailingError, FailingKind};

use crate::pages::prelude::*;

/// The most kinds on the page.
const ROWS: usize = 100;

/// The most queues of a kind. A row shows few of them.
const QUEUES: usize = 10;

/// The kinds with failed jobs, and the codes of their errors.
pub(super) struct Failing {
    pub(super) kinds: Vec<FailingKind>,
    codes: Vec<FailingCode>,
}

/// The failing kinds, which all open pages share.
pub(super) async fn found(page: &Page) -> Result<Arc<Timed<Failing>>, Failure> {
    let ask = async {
        let kinds = page.admin().failing_kinds().timeout(LOOK_UP).await?;
        let codes = page.admin().failing_codes().timeout(LOOK_UP).await?;
        Ok(Timed::new(page.now().await?, Failing { kinds, codes }))
    };
    page.shared((), ask).await
}

pub(crate) async fn list(page: Page) -> Result<Shown, Failure> {
    let page = Arc::new(page);
    let asked = page.ask(|page| async move { found(&page).await }).await?;
    let mut kinds = asked.rows(|of| (of.now(), &of.of.kinds));
    kinds.sort_by_key(|(page, _, one)| (Reverse(one.retryable + one.discarded), one.kind.as_str(), page.place()));
    let rows = fitting(&kinds, ROWS, |(page, now, one)| {
        let jobs = |state| page.link(&url("/jobs", &[("kind", one.kind.as_str()), ("state", state), ("since", "all")]));
        html! { tr id=(row_id(page, "kind", one.kind.as_str())) {
            (place_cell(page))
            th.l1 scope="row" { a.row-link href=(page.link(&url("/kind", &[("kind", one.kind.as_str())]))) { (Cell(&one.kind)) } }
            td.clip { @for (at, queue) in one.queues.iter().take(QUEUES).enumerate() { @if at > 0 { ", " } (Cell(queue)) } }
            td.num.r1 data-is="retryable" { a.plain href=(jobs("retryable")) { (grouped(one.retryable)) } }
            td.num.r1 data-is="discarded" { a.plain href=(jobs("discarded")) { (grouped(one.discarded)) } }
            td.num.r2 { @if let Some(at) = one.last_failed_at { (ago(at, *now)) } }
            td.wrap.mono.l2 { @if page.app.redact.is_none() { (Cell(&first_line(one.last_error.as_deref()))) } @else { span.note { "hidden" } } }
            td.nowrap { @if let Some(id) = one.last_job { (job_link(page, id)) } }
        } }
    });
    let body = html! {
        (asked.silent())
        @if kinds.is_empty() { p.panel.empty { "No job waits for a retry, and none was discarded." } } @else {
            (rows.table(html! { (place_head(&page)) th { "Kind" } th { "Queues" } th.num { "Retryable" } th.num { "Discarded" } th.num { "Last" } th { "Last error" } th { "Last job" } }))
            (rows.note())
            p.note { "Among the 10,000 waiting jobs that are due first, and the last 10,000 discarded ones." }
        }
        (by_code(&page, asked.rows(|of| (of.now(), &of.of.codes))))
        (cli("uniqueue job list --state retryable,discarded"))
    };
    Ok(document(&page, Document { title: "Failing kinds", is_live: true, actions: html! {}, body }))
}

/// The failed jobs by kind and the code of their last error, where one has a code.
fn by_code(page: &Page, mut codes: Vec<(&Page, OffsetDateTime, &FailingCode)>) -> Markup {
    codes.sort_by_key(|(page, _, one)| {
        (Reverse(one.retryable + one.discarded), one.kind.as_str(), one.code.as_deref(), page.place())
    });
    let jobs = |page: &Page, one: &FailingCode| {
        let code = one.code.as_deref().unwrap_or_default();
        page.link(&url("/jobs", &[("kind", one.kind.as_str()), ("code", code), ("since", "all")]))
    };
    let rows = fitting(&codes, ROWS, |(page, now, one)| {
        html! { tr {
            (place_cell(page))
            th.l1 scope="row" { (Cell(&one.kind)) }
            td.mono.l2 { @match &one.code { Some(code) => a href=(jobs(page, one)) { (Cell(code)) }, None => span.note { "none" } } }
            td.num.r1 data-is="retryable" { (grouped(one.retryable)) }
            td.num.r1 data-is="discarded" { (grouped(one.discarded)) }
            td.num.r2 { @if let Some(at) = one.last_failed_at { (ago(at, *now)) } }
            td.nowrap { @if let Some(id) = one.last_job { (job_link(page, id)) } }
        } }
    });
    html! {
        @if codes.iter().any(|(.., one)| one.code.is_some()) {
            h2 { "By code" }
            (rows.table(html! { (place_head(page)) th { "Kind" } th { "Code" } th.num { "Retryable" } th.num { "Discarded" } th.num { "Last" } th { "Last job" } }))
            (rows.note())
        }
    }
}

fn first_line(text: Option<&str>) -> String {
    text.and_then(|text| text.lines().next()).unwrap_or_default().chars().take(200).collect()
}

/// The most groups on the page.
const GROUPS: usize = 30;

/// The groups of a kind's failed jobs, each with a retry and a cancellation of its jobs.
pub(super) async fn errors(page: &Page, kind: &str) -> Result<Markup, Failure> {
    let Some(groups) = in_time(page.admin().failing_errors(kind).timeout(LOOK_UP).await)? else {
        // There are too many failed jobs of all kinds.
        return Ok(html! {
            h2 { "Errors" }
            p.note { "The failed jobs were not read in time." }
        });
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
