//! The log of changes.

use uuid::Uuid;

use crate::pages::prelude::*;

/// The most changes on a page.
const ROWS: u32 = 100;

pub(crate) async fn list(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let (actor, after) = (fields.get("actor"), fields.parsed::<Uuid>("after")?);
    let log = page.admin().change_log().limit(ROWS + 1).timeout(LOOK_UP);
    let changes = log.given(actor, |log, actor| log.by(actor)).given(after, |log, after| log.after(after)).await?;
    let now = page.now().await?;
    let rows = fitting(&changes, ROWS as usize, |one| {
        html! { tr {
            td.nowrap.r2 { (ago(one.at, now)) }
            td.clip.r1 { a href=(page.link(&url("/changes", &[("actor", one.actor.as_str())]))) { (Cell(&one.actor)) } }
            td.nowrap.l1 { (Cell(&one.verb)) }
            td.num { @if let Some(jobs) = one.jobs { (grouped(jobs)) } }
            td.clip.mono.l2 { (Cell(&subject(&one.subject))) }
        } }
    });
    let next = rows
        .last(&changes)
        .map(|last| url_given("/changes", &[("after", Some(last.id.to_string().as_str())), ("actor", actor)]));
    let body = html! {
        @if changes.is_empty() {
            p.panel.empty { "No change was logged yet." }
        } @else {
            (rows.table(html! { th { "When" } th { "User" } th { "Change" } th.num { "Jobs" } th { "Of what" } }))
            (pages(&page, None, next.as_deref()))
        }
    };
    Ok(document(&page, Document { title: "Changes", is_live: false, actions: html! {}, body }))
}

/// A subject in one line. A change of many jobs names a hundred.
fn subject(subject: &serde_json::Value) -> String {
    subject.to_string().chars().take(300).collect()
}
