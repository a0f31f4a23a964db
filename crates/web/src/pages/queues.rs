//! Queues: their jobs, and their settings.

use std::time::Duration;

use axum::response::{Html, Response};
use maud::{Markup, html};
use uniqueue::{JobState, Keep, QueueInfo};

use crate::access::Right;
use crate::failure::Failure;
use crate::fields::{Fields, url};
use crate::html::{Document, Hostile, count, document, grouped, span, submit};
use crate::page::{Page, by};
use crate::snapshot::Snapshot;

/// The states that the table shows.
const STATES: [JobState; 6] = [
    JobState::Available,
    JobState::Running,
    JobState::Retryable,
    JobState::Scheduled,
    JobState::Discarded,
    JobState::Completed,
];

pub(crate) async fn list(page: Page) -> Html<String> {
    let body = match page.app.sampler.latest().await {
        Some(snapshot) => table(&page, &snapshot),
        None => html! { p.callout.critical role="alert" { "The database does not answer." } },
    };
    document(&page, Document { title: "Queues", is_live: true, actions: html! {}, body })
}

fn table(page: &Page, snapshot: &Snapshot) -> Markup {
    if snapshot.queues.is_empty() {
        return html! { p.panel.empty { "There is no queue yet. A queue appears with its first job, its first runner or its first setting." } };
    }
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th { "Queue" } @for one in STATES { th.num { (one) } }
                        th.num { "Oldest" } th.num { "Runners" } th.num { "Limit" } th { "Settings" }
                    }
                }
                tbody { @for queue in &snapshot.queues { (row(page, queue)) } }
            }
        }
        p.note { "A number with a plus is a lower bound. Final jobs are counted among the last 20,000." }
    }
}

fn row(page: &Page, queue: &QueueInfo) -> Markup {
    let settings = &queue.settings;
    let name = settings.name.as_str();
    html! {
        tr id={ "queue-" (hex(name)) } {
            th scope="row" {
                a href=(page.link(&url("/jobs", &[("queue", name), ("since", "all")]))) { (Hostile(name)) }
                @if settings.paused_at.is_some() { " " span.badge.warning { "paused" } }
            }
            @for one in STATES {
                td.num { a.plain href=(page.link(&url("/jobs", &[("queue", name), ("state", one.as_str()), ("since", "all")]))) { (count(queue.count(one))) } }
            }
            td.num { (queue.oldest_available_age.map(span).unwrap_or_default()) }
            td.num { (grouped(queue.runners)) }
            td.num { (settings.limit.map(|limit| limit.to_string()).unwrap_or_else(|| "none".to_owned())) }
            td {
                @if page.may(Right::Queues) {
                    details.menu data-hold {
                        summary { "Change" }
                        (forms(page, queue))
                    }
                } @else { (kept(settings.keep_completed)) }
            }
        }
    }
}

fn forms(page: &Page, queue: &QueueInfo) -> Markup {
    let settings = &queue.settings;
    let to = page.link("/queues/change");
    let name = html! { input type="hidden" name="queue" value=(settings.name); };
    html! {
        form.row method="post" action=(to) {
            (name)
            @if settings.paused_at.is_some() { (submit("verb", "resume", "Resume", "primary")) }
            @else { (submit("verb", "pause", "Pause", "")) }
        }
        form.row method="post" action=(to) {
            (name)
            label { "Limit " input name="limit" type="number" min="1" max="2147483647" value=[settings.limit] placeholder="none"; }
            (submit("verb", "limit", "Set", ""))
        }
        @for (state, keep) in [("completed", settings.keep_completed), ("cancelled", settings.keep_cancelled), ("discarded", settings.keep_discarded)] {
            form.row method="post" action=(to) {
                (name)
                input type="hidden" name="state" value=(state);
                label { "Keep " (state) " " input name="days" type="number" min="0" max="36500" step="any" placeholder=(kept(keep)) required; " days" }
                (submit("verb", "keep", "Set", ""))
                (reset(keep))
            }
        }
    }
}

/// Gives the retention back to the runners.
fn reset(keep: Keep) -> Markup {
    html! { @if keep != Keep::AsRunnersSay { button name="verb" value="keep_default" formnovalidate { "Default" } } }
}

fn kept(keep: Keep) -> String {
    match keep {
        Keep::AsRunnersSay => "default".to_owned(),
        Keep::Forever => "forever".to_owned(),
        Keep::For(length) => span(length),
    }
}

/// An id for a name of any characters, so that rows keep their place when the page is read again.
fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Pauses, resumes or limits a queue, or sets a retention.
pub(crate) async fn change(page: Page, body: String) -> Result<Response, Failure> {
    let fields = Fields::read(&body);
    let name = fields.need("queue")?;
    let queue = page.client().queue(name);
    let verb = fields.need("verb")?;
    let change = match verb {
        "pause" => queue.pause(),
        "resume" => queue.resume(),
        "limit" => queue.limit(fields.parsed("limit")?),
        "keep" | "keep_default" => {
            let state = fields.parsed("state")?.ok_or(Failure::Bad("The field state is empty.".to_owned()))?;
            let keep = match (verb, fields.parsed::<f64>("days")?) {
                ("keep", Some(days)) => Keep::For(
                    Duration::try_from_secs_f64(days * 86_400.0)
                        .map_err(|_| Failure::Bad(format!("days is not valid: {days}")))?,
                ),
                _ => Keep::AsRunnersSay,
            };
            queue.keep(state, keep)
        }
        other => return Err(Failure::Bad(format!("there is no such change: {other:?}"))),
    };
    by!(page, change).await?;
    page.log(verb, name);
    page.app.sampler.refresh().await;
    Ok(page.go_to("/queues"))
}
