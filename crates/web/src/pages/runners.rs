//! Runners and their queues.

use uniqueue_admin::RunnerInfo;

use crate::pages::prelude::*;

/// The most runners on the page. The live ones come first.
const ROWS: usize = 100;

/// The most queues of a runner.
const QUEUES: usize = 20;

/// The most kinds of a runner. Its cell shows few of them.
const KINDS: usize = 10;

/// How many jobs a runner has.
fn running(runner: &RunnerInfo) -> u64 {
    runner.queues.iter().map(|queue| queue.running).sum()
}

async fn registered(page: Arc<Page>) -> Result<Arc<Timed<Vec<RunnerInfo>>>, Failure> {
    let ask = async {
        let of = page.admin().runners().timeout(LOOK_UP).await?;
        Ok(Timed::new(page.now().await?, of))
    };
    page.shared((), ask).await
}

pub(crate) async fn list(page: Page) -> Result<Shown, Failure> {
    let page = Arc::new(page);
    let asked = page.ask(registered).await?;
    let mut runners = asked.rows(|of| (of.now(), &of.of));
    runners.sort_by_key(|(.., one)| !one.is_alive);
    let rows = fitting(&runners, ROWS, |(page, now, one)| {
        html! { tr id={ "runner-" (one.id) } {
            (place_cell(page))
            th.l1 scope="row" {
                a.row-link href=(page.link(&url("/running", &[("runner", &one.name)]))) { (Cell(&one.name)) }
                @if let Some(host) = one.host.as_ref().filter(|host| !one.name.contains(host.as_str())) { " " span.note { (Cell(host)) } }
            }
            td.l2 { @if let Some(version) = &one.version { span.mono { (Cell(version)) } " " } span.note { (ago(one.started_at, *now)) } }
            td.nowrap.r1 {
                @if !one.is_alive { span.badge.critical { "dead" } }
                @else if running(one) > 0 { span.state.s-running { "runs " (grouped(running(one))) } }
                @else { span.state.s-pending { "idle" } }
                @if one.lease_left.is_none() { " " span.note.bad { "lease ran out" } }
            }
            td.names {
                @for (at, queue) in one.queues.iter().take(QUEUES).enumerate() {
                    @if at > 0 { ", " }
                    span.together { (Cell(&queue.queue)) " " span.note { (queue.running) @if let Some(slots) = queue.slots { "/" (slots) } } }
                }
                @if one.queues.len() > QUEUES { " and " (one.queues.len() - QUEUES) " more" }
            }
            td.clip { @if let Some(kinds) = &one.kinds { (Cell(&kinds.iter().take(KINDS).map(|kind| kind.as_str()).collect::<Vec<_>>().join(", "))) } @else { span.note { "any" } } }
            td.num.r2 title=[one.lease_left.map(|left| format!("its lease has {} left", span(left)))] { @if let Some(age) = one.heartbeat_age { (span(age)) " ago" } }
            td.num { (grouped(one.completed)) }
            td.num { (grouped(one.failed)) }
        } }
    });
    let body = html! {
        (asked.silent())
        @if runners.is_empty() {
            p.panel.empty { "No runner has registered. Jobs wait until one starts." }
        } @else {
            // Nothing else in it takes the focus, which a keyboard needs to scroll it.
            div.scroll tabindex="0" role="region" aria-label="Runners" { table.lines {
                thead { tr { (place_head(&page)) th { "Runner" } th { "Started" } th { "State" } th { "Queues" } th { "Kinds" } th.num { "Heartbeat" } th.num { "Completed" } th.num { "Failed" } } }
                tbody { (rows.html) }
            } }
            (rows.note())
            p.note { "After the name of a queue: jobs that the runner has, and its slots." }
        }
    };
    Ok(document(&page, Document { title: "Runners", is_live: true, actions: html! {}, body }))
}
