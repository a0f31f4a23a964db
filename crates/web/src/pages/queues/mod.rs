//! Queues: their jobs, and their settings.

mod forms;

use uniqueue::{QueueSettings, Rate};
use uniqueue_admin::{FirstJob, QueueInfo};

pub(crate) use self::forms::change;
use self::forms::settings;
pub(super) use self::forms::{HOLD, held, rate_in_words};
use crate::pages::history::{self, Of};
use crate::pages::prelude::*;
use crate::sampler::Snapshot;

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

/// How the jobs of queues are counted.
const COUNTS: &str = "~ marks an estimate from a part of the table, and > a lower bound: counting ends at 10,000, and that of final jobs at the last 20,000.";

pub(crate) async fn list(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let page = Arc::new(page);
    let asked = page.ask(|page| async move { Ok(page.sample().await) }).await?;
    let samples: Vec<_> =
        asked.answers.iter().filter_map(|(page, sample)| Some((page.as_ref(), sample.as_deref()?))).collect();
    let body = html! {
        (asked.silent())
        @if !samples.is_empty() { (table(&page, &samples, &fields)) }
    };
    Ok(document(&page, Document { title: "Queues", is_live: true, actions: html! {}, body }))
}

/// The name of a queue and its place, in the order of the list.
fn order<'a>(page: &'a Page, queue: &'a QueueInfo) -> (&'a str, Option<&'a str>) {
    (queue.settings.name.as_str(), page.place())
}

fn table(page: &Page, samples: &[(&Page, &Snapshot)], fields: &Fields) -> Markup {
    let mut queues: Vec<(&Page, OffsetDateTime, &QueueInfo)> = Vec::new();
    for (of, snapshot) in samples {
        queues.extend(snapshot.queues.iter().map(|queue| (*of, snapshot.now(), queue)));
    }
    let all = queues.len();
    if all == 0 {
        return html! { p.panel.empty { "There is no queue yet. A queue appears with its first job, its first runner or its first setting." } };
    }
    let (prefix, after) = (fields.get("prefix"), fields.get("after"));
    // A page may end between the places of one name.
    let after = after.map(|name| (name, fields.get("place")));
    queues.sort_by_key(|(page, _, queue)| order(page, queue));
    queues.retain(|(page, _, queue)| {
        prefix.is_none_or(|prefix| queue.settings.name.as_str().starts_with(prefix))
            && after.is_none_or(|after| order(page, queue) > after)
    });
    let rows = fitting(&queues, ROWS, |(page, now, queue)| row(page, queue, *now));
    let next = rows.last(&queues).map(|(page, _, queue)| {
        let (name, place) = order(page, queue);
        url_given("/queues", &[("after", Some(name)), ("place", place), ("prefix", prefix)])
    });
    html! {
        @if all > ROWS {
            form.row.search method="get" action=(page.link("/queues")) role="search" {
                input name="prefix" value=[prefix] placeholder="queue begins with" aria-label="Queue begins with" size="24";
                button { "Search" }
            }
        }
        @if queues.is_empty() { p.panel.empty { "No queue begins so. " a href=(page.link("/queues")) { "All queues" } } }
        @else { (rows.table(html! {
            (place_head(page))
            th { "Queue" } @for one in STATES { th.num.word { (one) } }
            th.num { "Oldest" } th.num { "Runners" } th { "Limits" }
        })) }
        (pages(page, None, next.as_deref()))
        p.note { (COUNTS) }
        (cli("uniqueue queue list"))
    }
}

fn row(page: &Page, queue: &QueueInfo, now: OffsetDateTime) -> Markup {
    let settings = &queue.settings;
    let name = settings.name.as_str();
    html! {
        tr id=(row_id(page, "queue", name)) {
            (place_cell(page))
            th.l1 scope="row" {
                a.row-link href=(page.link(&url("/queue", &[("queue", name)]))) { (Hostile(name)) }
                @if settings.paused_at.is_some() { " " span.badge.warning title=[settings.pause_reason.as_deref()] { "paused" } }
                @if let Some(until) = settings.held_until { " " (held(until, now)) }
                @if settings.fair { " " span.badge title="Its groups take turns within a priority" { "fair" } }
            }
            @for one in STATES { td.num.(place(one)) data-is=(one) {
                (jobs(page, queue, one))
                @if let (JobState::Available, Some(most)) = (one, settings.max_waiting) {
                    span.note title="Inserts are refused at this number of available jobs" { " of " (grouped(u64::from(most))) }
                }
            } }
            td.num.r2 data-is="old" { (queue.oldest_available_age.map(span).unwrap_or_default()) }
            td.num { (grouped(queue.runners)) }
            td.limits { (limits(settings)) }
        }
    }
}

/// The place of a count in the two lines of a row on a phone.
const fn place(state: JobState) -> &'static str {
    match state {
        JobState::Available => "r1",
        JobState::Retryable | JobState::Discarded => "l2",
        _ => "",
    }
}

/// How many jobs of a queue, and of each of its groups, run at once and start in a time.
fn limits(settings: &QueueSettings) -> Markup {
    let limit = |limit: Option<u32>| limit.map(|limit| grouped(u64::from(limit)));
    let rate = |rate: Option<Rate>| rate.map(|rate| rate.to_string());
    let limits = [
        (limit(settings.limit), ""),
        (rate(settings.rate), ""),
        (limit(settings.group_limit), " a group"),
        (rate(settings.group_rate), " a group"),
    ];
    let mut limits = limits.into_iter().filter_map(|(limit, of)| Some((limit?, of))).peekable();
    html! {
        @if limits.peek().is_none() { "none" }
        @for (limit, of) in limits { span.nowrap { (limit) (of) } " " }
    }
}

/// The number of jobs in a state, with a link to them.
fn jobs(page: &Page, queue: &QueueInfo, one: JobState) -> Markup {
    let jobs = queue.count(one);
    let list = url("/jobs", &[("queue", queue.settings.name.as_str()), ("state", one.as_str()), ("since", "all")]);
    html! { @if jobs.counted() == 0 { (count(jobs)) } @else { a.plain href=(page.link(&list)) { (count(jobs)) } } }
}

/// One queue: its jobs, and its settings.
pub(crate) async fn show(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let name = fields.need("queue")?;
    let Some(mut snapshot) = page.sample().await else {
        return Ok(document(&page, Document { title: "Queue", is_live: true, actions: html! {}, body: html! {} }));
    };
    let is_it = |queue: &&QueueInfo| queue.settings.name.as_str() == name;
    if !snapshot.queues.iter().any(|queue| is_it(&queue)) {
        // It may have appeared since the sample.
        page.app.sampler.refresh().await;
        snapshot = page.app.sampler.latest().await.snapshot.unwrap_or(snapshot);
    }
    let queue = snapshot.queues.iter().find(is_it);
    let queue = queue.ok_or(Failure::NotFound("queue: it appears with its first job, runner or setting"))?;
    let now = snapshot.now();
    let ask = async { Ok(page.admin().why_queue(name).timeout(LOOK_UP).await?) };
    // The page stands without it, as where the database is away.
    let first: Option<Arc<Option<FirstJob>>> = page.shared(name, ask).await.ok();
    let waits = queue.oldest_available_age;
    let of = Of { kind: None, queue: Some(name), path: "/queue" };
    // The page stands without it, as where the role may not read it.
    let (history, _) = history::section(&page, &fields, of).await.unwrap_or_default();
    let body = html! {
        @if let Some(first) = first.as_deref().and_then(Option::as_ref) { (why(&page, first.id, &first.obstacles)) }
        div.columns {
            section.panel {
                h2 { "Jobs" }
                dl.facts { @for one in JobState::ALL { dt { (state(one)) } dd { (jobs(&page, queue, one)) } } }
                dl.facts {
                    dt { "Runners" } dd { a href=(page.link("/runners")) { (grouped(queue.runners)) } }
                    dt { "Oldest available" } dd { @match waits { Some(age) => { "due for " (span(age)) } None => "none" } }
                }
                p {
                    a href=(page.link(&url("/jobs", &[("queue", name), ("since", "all")]))) { "Jobs of this queue" }
                    " · " a href=(page.link(&url("/groups", &[("queue", name)]))) { "Groups of this queue" }
                }
                p.note { (COUNTS) }
            }
            (settings(&page, &queue.settings, now))
        }
        h2 { "History" }
        (history)
        (cli(&format!("uniqueue queue list {}", argument(name))))
    };
    let title = format!("Queue {name}");
    Ok(document(&page, Document { title: &title, is_live: true, actions: html! {}, body }))
}
