//! Inserts that wait for other transactions.

use maud::html;

use crate::failure::Failure;
use crate::html::{Cell, Document, Shown, cli, document, fitting, job_link, key_cell, span};
use crate::page::{LOOK_UP, Page};

/// The most inserts on the page. The longest wait comes first.
const ROWS: usize = 100;

pub(crate) async fn list(page: Page) -> Result<Shown, Failure> {
    let ask = async { Ok(page.client().waiting_inserts().timeout(LOOK_UP).await?) };
    let waiting = page.shared(&page.app.answers.one(), ask).await?;
    let rows = fitting(&waiting, ROWS, |one| {
        html! { tr id={ "waiting-" (one.pid) } {
            td.num.r1 { (one.waiting_for.map(span).unwrap_or_default()) }
            td { (one.pid) " " (Cell(one.application.as_deref().unwrap_or_default())) }
            td { (one.waits_for) @if let Some(holder) = one.holder { " " (job_link(&page, holder)) } }
            td.clip.l1 { @if let Some(key) = &one.unique_key { (key_cell(&page, key)) } }
            td.l2.wrap { @match one.blocker_pid { Some(pid) => (pid), None => "a prepared transaction" }
                " " (Cell(one.blocker_application.as_deref().unwrap_or_default()))
                @if let Some(state) = &one.blocker_state { span.note { " " (state) } } }
            td.num.r2 data-is="open" { (one.blocker_open_for.map(span).unwrap_or_default()) }
            td.clip.mono { (Cell(one.blocker_query.as_deref().unwrap_or_default())) }
        } }
    });
    let body = html! {
        @if waiting.is_empty() {
            p.panel.empty { "No insert waits. An insert waits when another transaction inserts the same key, or changes its holder, and has not ended." }
        } @else {
            div.scroll { table.lines {
                thead { tr { th { "Waits" } th { "Session" } th { "For" } th { "Key" } th { "Held up by" } th { "Open for" } th { "Its statement" } } }
                tbody { (rows.html) }
            } }
            (rows.note())
            p.note { "The session that holds them up can be ended in psql: " code { "SELECT pg_terminate_backend(PID)" } ". Its transaction is rolled back." }
        }
        (cli("uniqueue top"))
    };
    Ok(document(&page, Document { title: "Waiting inserts", is_live: true, actions: html! {}, body }))
}
