//! Everything that `doctor` found, and what it could not look at.

use maud::html;

use super::findings::{Remedies, findings};
use crate::html::{Document, Hostile, Shown, ago, cli, document};
use crate::page::Page;

pub(crate) async fn show(page: Page) -> Shown {
    let snapshot = page.sample().await;
    let body = html! {
        @if let Some(snapshot) = &snapshot { (findings(&page, snapshot, 100, Remedies::Shown)) }
        @if let Some((snapshot, diagnosis)) = snapshot.as_ref().and_then(|one| Some((one, one.doctor.diagnosis.as_ref()?))) {
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
        p.note { "Remedies are to be copied. The dashboard runs none of them." }
        (cli("uniqueue doctor"))
    };
    document(&page, Document { title: "Doctor", is_live: true, actions: html! {}, body })
}
