//! Queues: their jobs, and their settings.

use std::time::Duration;

use axum::response::{Html, Response};
use maud::{Markup, html};
use uniqueue::{JobState, Keep, QueueInfo, QueueSettings};

use crate::access::Right;
use crate::failure::Failure;
use crate::fields::{Fields, url};
use crate::html::{Document, Hostile, ago, count, document, grouped, span, state, submit};
use crate::page::{Page, by};
use crate::snapshot::Snapshot;

/// The most queues on a page.
const ROWS: usize = 50;

/// The states that the table shows.
const STATES: [JobState; 6] = [
    JobState::Available,
    JobState::Running,
    JobState::Retryable,
    JobState::Scheduled,
    JobState::Discarded,
    JobState::Completed,
];

pub(crate) async fn list(page: Page, fields: Fields) -> Html<String> {
    let body = match page.app.sampler.latest().await {
        Some(snapshot) => table(&page, &snapshot, &fields),
        None => html! { p.callout.critical role="alert" { "The database does not answer." } },
    };
    document(&page, Document { title: "Queues", is_live: true, actions: html! {}, body })
}

fn table(page: &Page, snapshot: &Snapshot, fields: &Fields) -> Markup {
    if snapshot.queues.is_empty() {
        return html! { p.panel.empty { "There is no queue yet. A queue appears with its first job, its first runner or its first setting." } };
    }
    let (prefix, after) = (fields.get("prefix"), fields.get("after"));
    let mut queues: Vec<_> = snapshot.queues.iter().collect();
    queues.sort_by_key(|queue| queue.settings.name.as_str());
    queues.retain(|queue| {
        let name = queue.settings.name.as_str();
        prefix.is_none_or(|prefix| name.starts_with(prefix)) && after.is_none_or(|after| name > after)
    });
    let next = (queues.len() > ROWS).then(|| {
        let mut pairs = vec![("after", queues[ROWS - 1].settings.name.as_str())];
        pairs.extend(prefix.map(|prefix| ("prefix", prefix)));
        url("/queues", &pairs)
    });
    html! {
        @if snapshot.queues.len() > ROWS {
            form.row.search method="get" action=(page.link("/queues")) role="search" {
                input name="prefix" value=[prefix] placeholder="queue begins with" aria-label="Queue begins with" data-search size="24";
                button { "Search" }
            }
        }
        @if queues.is_empty() { p.panel.empty { "No queue begins so. " a href=(page.link("/queues")) { "All queues" } } }
        @else { div.scroll {
            table {
                thead {
                    tr {
                        th { "Queue" } @for one in STATES { th.num { (one) } }
                        th.num { "Oldest" } th.num { "Runners" } th.num { "Limit" } th { "Keeps completed" }
                    }
                }
                tbody { @for queue in queues.iter().take(ROWS) { (row(page, queue)) } }
            }
        } }
        p.row.pages { @if let Some(next) = next { a.button rel="next" href=(page.link(&next)) { "Next page" } } }
        p.note { "A number with a plus is a lower bound. Final jobs are counted among the last 20,000." }
    }
}

fn row(page: &Page, queue: &QueueInfo) -> Markup {
    let settings = &queue.settings;
    let name = settings.name.as_str();
    html! {
        tr id={ "queue-" (hex(name)) } {
            th scope="row" {
                a href=(page.link(&url("/queue", &[("queue", name)]))) { (Hostile(name)) }
                @if settings.paused_at.is_some() { " " span.badge.warning { "paused" } }
                @if settings.fair { " " span.badge title="Its groups take turns within a priority" { "fair" } }
            }
            @for one in STATES { td.num {
                (jobs(page, queue, one))
                @if let (JobState::Available, Some(most)) = (one, settings.max_waiting) {
                    span.note title="Inserts are refused at this number of available jobs" { " of " (grouped(u64::from(most))) }
                }
            } }
            td.num { (queue.oldest_available_age.map(span).unwrap_or_default()) }
            td.num { (grouped(queue.runners)) }
            td.num.nowrap { (limit(settings)) }
            td { (kept(settings.keep_completed)) }
        }
    }
}

/// The limits of a queue and of each of its groups.
fn limit(settings: &QueueSettings) -> String {
    match (settings.limit, settings.group_limit) {
        (None, None) => "none".to_owned(),
        (Some(all), None) => all.to_string(),
        (None, Some(group)) => format!("{group} a group"),
        (Some(all), Some(group)) => format!("{all}, {group} a group"),
    }
}

/// The number of jobs in a state, with a link to them.
fn jobs(page: &Page, queue: &QueueInfo, one: JobState) -> Markup {
    let jobs = queue.count(one);
    let list = url("/jobs", &[("queue", queue.settings.name.as_str()), ("state", one.as_str()), ("since", "all")]);
    html! { @if jobs.counted() == 0 { (count(jobs)) } @else { a.plain href=(page.link(&list)) { (count(jobs)) } } }
}

/// One queue: its jobs, and its settings.
pub(crate) async fn show(page: Page, fields: Fields) -> Result<Html<String>, Failure> {
    let name = fields.need("queue")?;
    let Some(snapshot) = page.app.sampler.latest().await else {
        let body = html! { p.callout.critical role="alert" { "The database does not answer." } };
        return Ok(document(&page, Document { title: "Queue", is_live: true, actions: html! {}, body }));
    };
    let queue = snapshot.queues.iter().find(|queue| queue.settings.name.as_str() == name);
    let queue = queue.ok_or(Failure::NotFound("queue: it appears with its first job, runner or setting"))?;
    let settings = &queue.settings;
    let body = html! {
        p.callout.mono.the-key {
            (Hostile(name))
            @if let Some(at) = settings.paused_at { " " span.badge.warning { "paused" } " " span.note { (ago(at, snapshot.stats.asked_at.max(at))) } }
        }
        div.columns {
            section.panel {
                h2 { "Jobs" }
                dl.facts { @for one in JobState::ALL { dt { (state(one)) } dd { (jobs(&page, queue, one)) } } }
                p.note { "A number with a plus is a lower bound. Final jobs are counted among the last 20,000." }
                p {
                    a href=(page.link(&url("/jobs", &[("queue", name), ("since", "all")]))) { "Jobs of this queue" }
                    " · " a href=(page.link(&url("/groups", &[("queue", name)]))) { "Groups of this queue" }
                }
            }
            section.panel {
                h2 { "Work" }
                dl.facts {
                    dt { "Runners" } dd { (grouped(queue.runners)) }
                    dt { "Oldest available job" } dd { @match queue.oldest_available_age { Some(age) => { "due for " (span(age)) } None => "none" } }
                    dt { "Limit" } dd { @match settings.limit { Some(limit) => { (limit) " at once" } None => "none" } }
                    dt { "Limit of each group" } dd { @match settings.group_limit { Some(limit) => { (limit) " at once" } None => "none but the jobs' own" } }
                    dt { "May wait" } dd { @match settings.max_waiting { Some(limit) => { (grouped(u64::from(limit))) " available jobs" } None => "any number" } }
                    dt { "Turns" } dd { @if settings.fair { "fair: groups take turns, and jobs without a group are one more" } @else { "groups take turns, and jobs without a group come by their time" } }
                    dt { "Keeps completed" } dd { (kept(settings.keep_completed)) }
                    dt { "Keeps cancelled" } dd { (kept(settings.keep_cancelled)) }
                    dt { "Keeps discarded" } dd { (kept(settings.keep_discarded)) }
                }
            }
            @if page.may(Right::Queues) { section.panel.actions-panel { h2 { "Change" } (forms(&page, queue)) } }
        }
        details.cli { summary { "The same on the command line" } pre data-copy { code { "uniqueue queue list" } } }
    };
    Ok(document(&page, Document { title: "Queue", is_live: true, actions: html! {}, body }))
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
        form.row method="post" action=(to) {
            (name)
            label { "Limit of each group " input name="limit" type="number" min="1" max="2147483647" value=[settings.group_limit] placeholder="none"; }
            (submit("verb", "limit_groups", "Set", ""))
        }
        form.row method="post" action=(to) {
            (name)
            label { "Most available jobs " input name="limit" type="number" min="1" max="2147483647" value=[settings.max_waiting] placeholder="none"; }
            (submit("verb", "max_waiting", "Set", ""))
            span.note { "Inserts beyond are refused." }
        }
        form.row method="post" action=(to) {
            (name)
            @if settings.fair { (submit("verb", "not_fair", "End fair turns", "")) }
            @else { (submit("verb", "fair", "Take fair turns", "")) }
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

/// Pauses, resumes or limits a queue, sets how many jobs may wait in it, how it treats its groups, or a retention.
pub(crate) async fn change(page: Page, body: String) -> Result<Response, Failure> {
    let fields = Fields::read(&body);
    let name = fields.need("queue")?;
    let queue = page.client().queue(name);
    let verb = fields.need("verb")?;
    let change = match verb {
        "pause" => queue.pause(),
        "resume" => queue.resume(),
        "limit" => queue.limit(fields.parsed("limit")?),
        "limit_groups" => queue.group_limit(fields.parsed("limit")?),
        "max_waiting" => queue.max_waiting(fields.parsed("limit")?),
        "fair" => queue.fair(true),
        "not_fair" => queue.fair(false),
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
    Ok(page.go_to(&url("/queue", &[("queue", name)])))
}
