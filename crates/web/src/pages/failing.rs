//! Kinds with failed jobs.

use std::sync::Arc;

use maud::{Markup, html};
use time::OffsetDateTime;
use uniqueue::{FailingCode, FailingKind};

use crate::failure::Failure;
use crate::fields::url;
use crate::html::{Cell, Document, Shown, ago, cli, document, fitting, grouped, hex, job_link};
use crate::page::{LOOK_UP, Page};
use crate::shared::Timed;

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
        let kinds = page.client().failing_kinds().timeout(LOOK_UP).await?;
        let codes = page.client().failing_codes().timeout(LOOK_UP).await?;
        Ok(Timed::new(page.now().await?, Failing { kinds, codes }))
    };
    page.shared(&page.app.answers.one(), ask).await
}

pub(crate) async fn list(page: Page) -> Result<Shown, Failure> {
    let answer = found(&page).await?;
    let (now, Failing { kinds, codes }) = (answer.now(), &answer.of);
    let jobs = |kind: &str, state| page.link(&url("/jobs", &[("kind", kind), ("state", state), ("since", "all")]));
    let rows = fitting(kinds, ROWS, |one| {
        html! { tr id={ "kind-" (hex(one.kind.as_str())) } {
            th.l1 scope="row" { a.row-link href=(page.link(&url("/kind", &[("kind", one.kind.as_str())]))) { (Cell(&one.kind)) } }
            td.clip { @for (at, queue) in one.queues.iter().take(QUEUES).enumerate() { @if at > 0 { ", " } (Cell(queue)) } }
            td.num.r1 data-is="retryable" { a.plain href=(jobs(one.kind.as_str(), "retryable")) { (grouped(one.retryable)) } }
            td.num.r1 data-is="discarded" { a.plain href=(jobs(one.kind.as_str(), "discarded")) { (grouped(one.discarded)) } }
            td.num.r2 { @if let Some(at) = one.last_failed_at { (ago(at, now)) } }
            td.clip.mono.l2 { @if page.app.redact.is_none() { (Cell(&first_line(one.last_error.as_deref()))) } @else { span.note { "hidden" } } }
            td.nowrap { @if let Some(id) = one.last_job { (job_link(&page, id)) } }
        } }
    });
    let body = html! {
        @if kinds.is_empty() { p.panel.empty { "No job waits for a retry, and none was discarded." } } @else {
            div.scroll { table.lines {
                thead { tr { th { "Kind" } th { "Queues" } th.num { "Retryable" } th.num { "Discarded" } th.num { "Last" } th { "Last error" } th { "Last job" } } }
                tbody { (rows.html) }
            } }
            (rows.note())
            p.note { "Among the 10,000 waiting jobs that are due first, and the last 10,000 discarded ones." }
        }
        (by_code(&page, codes, now))
        (cli("uniqueue job list --state retryable,discarded"))
    };
    Ok(document(&page, Document { title: "Failing kinds", is_live: true, actions: html! {}, body }))
}

/// The failed jobs by kind and the code of their last error, where one has a code.
fn by_code(page: &Page, codes: &[FailingCode], now: OffsetDateTime) -> Markup {
    let jobs = |one: &FailingCode| {
        let code = one.code.as_deref().unwrap_or_default();
        page.link(&url("/jobs", &[("kind", one.kind.as_str()), ("code", code), ("since", "all")]))
    };
    let rows = fitting(codes, ROWS, |one| {
        html! { tr {
            th.l1 scope="row" { (Cell(&one.kind)) }
            td.mono.l2 { @match &one.code { Some(code) => a href=(jobs(one)) { (Cell(code)) }, None => span.note { "none" } } }
            td.num.r1 data-is="retryable" { (grouped(one.retryable)) }
            td.num.r1 data-is="discarded" { (grouped(one.discarded)) }
            td.num.r2 { @if let Some(at) = one.last_failed_at { (ago(at, now)) } }
            td.nowrap { @if let Some(id) = one.last_job { (job_link(page, id)) } }
        } }
    });
    html! {
        @if codes.iter().any(|one| one.code.is_some()) {
            h2 { "By code" }
            div.scroll { table.lines {
                thead { tr { th { "Kind" } th { "Code" } th.num { "Retryable" } th.num { "Discarded" } th.num { "Last" } th { "Last job" } } }
                tbody { (rows.html) }
            } }
            (rows.note())
        }
    }
}

fn first_line(text: Option<&str>) -> String {
    text.and_then(|text| text.lines().next()).unwrap_or_default().chars().take(200).collect()
}
