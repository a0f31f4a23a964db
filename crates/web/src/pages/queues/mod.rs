//! Queues: their jobs, and their settings.

mod forms;
mod one;

use time::OffsetDateTime;
use uniqueue::{JobState, Keep, QueueSettings, Rate};
use uniqueue_admin::QueueInfo;

pub(crate) use self::forms::change;
pub(super) use self::forms::{HOLD, rate_in_words};
pub(crate) use self::one::show;
use crate::pages::prelude::*;
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

/// That a queue or a group is held, and for how much longer.
pub(super) fn held(until: OffsetDateTime, now: OffsetDateTime) -> Markup {
    html! { span.badge.warning { "held" } " " span.note { "for " (countdown(until, now)) } }
}

fn kept(keep: Keep) -> String {
    match keep {
        Keep::AsRunnersSay => "default".to_owned(),
        Keep::Forever => "forever".to_owned(),
        Keep::For(length) => span(length),
    }
}

/// The number of jobs in a state, with a link to them.
fn jobs(page: &Page, queue: &QueueInfo, one: JobState) -> Markup {
    let jobs = queue.count(one);
    let list = url("/jobs", &[("queue", queue.settings.name.as_str()), ("state", one.as_str()), ("since", "all")]);
    html! { @if jobs.counted() == 0 { (count(jobs)) } @else { a.plain href=(page.link(&list)) { (count(jobs)) } } }
}
