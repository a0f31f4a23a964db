//! Everything that `doctor` found, and what it could not look at.

use super::findings::{Remedies, findings, list};
use crate::pages::prelude::*;
use crate::snapshot::Snapshot;

pub(crate) async fn show(page: Page) -> Result<Shown, Failure> {
    let page = Arc::new(page);
    let asked = page.ask(|page| async move { Ok(page.sample().await) }).await?;
    let across = match page.app.all_places() {
        Some(all) => Some(all.across.latest().await),
        None => None,
    };
    let body = html! {
        (asked.silent())
        @if let Some(across) = &across {
            @match across {
                Some(found) if found.is_empty() => p.callout.ok { "The places fit together." },
                Some(found) => (list(&page, found, 100, Remedies::Shown)),
                None => p.callout.ok { "The doctor is comparing the places." },
            }
        }
        @for (page, snapshot) in &asked.answers {
            @if let Some(place) = &page.among { h2 { "Place " a href=(page.link("/doctor")) { (Cell(place.as_str())) } } }
            @if let Some(snapshot) = snapshot { (of_queue(page, snapshot)) }
        }
        p.note { "Remedies are to be copied. The dashboard runs none of them." }
        (cli("uniqueue doctor"))
    };
    Ok(document(&page, Document { title: "Doctor", is_live: true, actions: html! {}, body }))
}

/// The findings of a queue. On the page of the queue itself also what was looked at.
fn of_queue(page: &Page, snapshot: &Snapshot) -> Markup {
    html! {
        (findings(page, snapshot, 100, Remedies::Shown))
        @if let Some(diagnosis) = snapshot.doctor.diagnosis.as_ref().filter(|_| page.among.is_none()) {
            div.columns {
                section.panel {
                    h2 { "Database" }
                    dl.facts {
                        dt { "Database" } dd { (Hostile(&diagnosis.database)) }
                        dt { "Schema" } dd { (Hostile(diagnosis.schema.as_str())) }
                        dt { "Role" } dd { (Hostile(&diagnosis.role)) }
                        dt { "Server" } dd { (Hostile(&diagnosis.server_version)) }
                        dt { "Looked" } dd { (ago(diagnosis.at, snapshot.now())) }
                    }
                }
                section.panel {
                    h2 { (diagnosis.checks.len()) " checks" }
                    p.note { @for (at, check) in diagnosis.checks.iter().enumerate() { @if at > 0 { ", " } (check) } }
                    @for skipped in &diagnosis.skipped {
                        p { b { "Skipped: " (Hostile(&skipped.check)) ". " } (Hostile(&skipped.why))
                            @if let Some(remedy) = &skipped.remedy { " " (Hostile(remedy)) } }
                    }
                }
            }
        }
    }
}
