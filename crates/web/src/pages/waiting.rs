//! Inserts that wait for other transactions.

use uniqueue_admin::WaitingInsert;

use crate::pages::prelude::*;

/// The most inserts on the page. The longest wait comes first.
const ROWS: usize = 100;

async fn waiting(page: Arc<Page>) -> Result<Arc<Vec<WaitingInsert>>, Failure> {
    let ask = async { Ok(page.admin().waiting_inserts().timeout(LOOK_UP).await?) };
    page.shared((), ask).await
}

pub(crate) async fn list(page: Page) -> Result<Shown, Failure> {
    let page = Arc::new(page);
    let asked = page.ask(waiting).await?;
    let mut inserts = asked.rows(|of| ((), of));
    inserts.sort_by_key(|(.., one)| Reverse(one.waiting_for));
    let rows = fitting(&inserts, ROWS, |(page, (), one)| {
        html! { tr id=(row_id(page, "waiting", one.pid)) {
            (place_cell(page))
            td.num.r1 { (one.waiting_for.map(span).unwrap_or_default()) }
            td { (one.pid) " " (Cell(one.application.as_deref().unwrap_or_default())) }
            td { (one.waits_for) @if let Some(holder) = one.holder { " " (job_link(page, holder)) } }
            td.clip.l1 { @if let Some(key) = &one.unique_key { (key_cell(page, key)) } }
            td.l2.wrap { @match one.blocker_pid { Some(pid) => (pid), None => "a prepared transaction" }
                " " (Cell(one.blocker_application.as_deref().unwrap_or_default()))
                @if let Some(state) = &one.blocker_state { span.note { " " (state) } } }
            td.num.r2 data-is="open" { (one.blocker_open_for.map(span).unwrap_or_default()) }
            td.clip.mono { (Cell(one.blocker_query.as_deref().unwrap_or_default())) }
        } }
    });
    let body = html! {
        (asked.silent())
        @if inserts.is_empty() {
            p.panel.empty { "No insert waits. An insert waits when another transaction inserts the same key, or changes its holder, and has not ended." }
        } @else {
            (rows.table(html! { (place_head(&page)) th { "Waits" } th { "Session" } th { "For" } th { "Key" } th { "Held up by" } th { "Open for" } th { "Its statement" } }))
            (rows.note())
            p.note { "The session that holds them up can be ended in psql: " code { "SELECT pg_terminate_backend(PID)" } ". Its transaction is rolled back." }
        }
        (cli("uniqueue top"))
    };
    Ok(document(&page, Document { title: "Waiting inserts", is_live: true, actions: html! {}, body }))
}
