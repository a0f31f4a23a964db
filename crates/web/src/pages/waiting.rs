//! Inserts that wait for other transactions.

use axum::response::Html;
use maud::html;

use crate::failure::Failure;
use crate::html::{Document, Hostile, cli, document, job_link, key_link, span};
use crate::page::{LOOK_UP, Page};

pub(crate) async fn list(page: Page) -> Result<Html<String>, Failure> {
    let ask = async { Ok(page.client().waiting_inserts().timeout(LOOK_UP).await?) };
    let waiting = page.shared(&page.app.answers.waiting, ask).await?;
    let body = html! {
        @if waiting.is_empty() {
            p.panel.empty { "No insert waits. An insert waits when another transaction inserts the same key, or changes its holder, and has not ended." }
        } @else {
            div.scroll { table {
                thead { tr { th { "Waits" } th { "Session" } th { "For" } th { "Key" } th { "Held up by" } th { "Open for" } th { "Its statement" } } }
                tbody { @for one in waiting.iter() { tr id={ "waiting-" (one.pid) } {
                    td.num { (one.waiting_for.map(span).unwrap_or_default()) }
                    td { (one.pid) " " (Hostile(one.application.as_deref().unwrap_or_default())) }
                    td { (one.waits_for) @if let Some(holder) = one.holder { " " (job_link(&page, holder)) } }
                    td.clip { @if let Some(key) = &one.unique_key { (key_link(&page, key)) } }
                    td { @match one.blocker_pid { Some(pid) => (pid), None => "a prepared transaction" }
                        " " (Hostile(one.blocker_application.as_deref().unwrap_or_default()))
                        @if let Some(state) = &one.blocker_state { span.note { " " (state) } } }
                    td.num { (one.blocker_open_for.map(span).unwrap_or_default()) }
                    td.clip.mono { (Hostile(one.blocker_query.as_deref().unwrap_or_default())) }
                } } }
            } }
            p.note { "The session that holds them up can be ended in psql: " code { "SELECT pg_terminate_backend(PID)" } ". Its transaction is rolled back." }
        }
        (cli("uniqueue top"))
    };
    Ok(document(&page, Document { title: "Waiting inserts", is_live: true, actions: html! {}, body }))
}
