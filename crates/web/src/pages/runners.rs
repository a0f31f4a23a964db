//! Runners and their queues.

use maud::html;

use crate::failure::Failure;
use crate::html::{Cell, Document, Shown, ago, document, fitting, grouped, span};
use crate::page::{LOOK_UP, Page};
use crate::shared::Timed;

/// The most runners on the page. The live ones come first.
const ROWS: usize = 100;

/// The most queues of a runner.
const QUEUES: usize = 20;

pub(crate) async fn list(page: Page) -> Result<Shown, Failure> {
    let ask = async {
        let of = page.client().runners().timeout(LOOK_UP).await?;
        Ok(Timed::new(page.now().await?, of))
    };
    let answer = page.shared(&page.app.answers.one(), ask).await?;
    let (now, runners) = (answer.now(), &answer.of);
    let rows = fitting(runners, ROWS, |one| {
        html! { tr id={ "runner-" (one.id) } {
            th scope="row" { (Cell(&one.name)) }
            td.nowrap {
                @if !one.is_alive { span.badge.critical { "dead" } }
                @else if one.is_idle { span.state.s-pending { "idle" } }
                @else { span.state.s-running { "working" } }
            }
            td.names {
                @for (at, queue) in one.queues.iter().take(QUEUES).enumerate() {
                    @if at > 0 { ", " }
                    (Cell(&queue.queue)) " " span.note { (queue.running) @if let Some(slots) = queue.slots { "/" (slots) } }
                }
                @if one.queues.len() > QUEUES { " and " (one.queues.len() - QUEUES) " more" }
            }
            td.num { @if let Some(age) = one.heartbeat_age { (span(age)) " ago" } }
            td.num { @match one.lease_left { Some(left) => { (span(left)) " left" } None => "ran out" } }
            td.num { (grouped(one.completed)) }
            td.num { (grouped(one.failed)) }
            td.num { (ago(one.started_at, now)) }
        } }
    });
    let body = html! {
        @if runners.is_empty() {
            p.panel.empty { "No runner has registered. Jobs wait until one starts: see " code { "Runner" } " in the library." }
        } @else {
            // Nothing else in it takes the focus, which a keyboard needs to scroll it.
            div.scroll tabindex="0" role="region" aria-label="Runners" { table {
                thead { tr { th { "Runner" } th { "State" } th { "Queues" } th.num { "Heartbeat" } th.num { "Lease" } th.num { "Completed" } th.num { "Failed" } th.num { "Started" } } }
                tbody { (rows.html) }
            } }
            (rows.note())
            p.note { "After the name of a queue: jobs that the runner has, and its slots." }
        }
    };
    Ok(document(&page, Document { title: "Runners", is_live: true, actions: html! {}, body }))
}
