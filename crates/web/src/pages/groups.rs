//! Groups: their limits, their first jobs, and what holds each line up.

use axum::response::Html;
use maud::{Markup, html};
use time::OffsetDateTime;
use uniqueue::{GroupInfo, JobId};

use super::jobs::quoted;
use crate::failure::Failure;
use crate::fields::{Fields, url};
use crate::html::{Document, Hostile, ago, document, grouped, job_link};
use crate::page::{LOOK_UP, Page};
use crate::shared::Timed;

/// The most groups on the page. The library's list has no pages: those that are held up come first.
const ROWS: u32 = 50;

/// The library counts the jobs of a group no further than this.
const COUNTED_TO: u64 = 1_001;

pub(crate) async fn list(page: Page, fields: Fields) -> Result<Html<String>, Failure> {
    let queue = fields.get("queue");
    let shared = page.app.answers.groups.of(queue.map(ToOwned::to_owned));
    let answer = page.shared(&shared, read(&page, queue)).await?;
    let (now, groups) = (answer.now(), &answer.of);
    let body = html! {
        form.row.search method="get" action=(page.link("/groups")) role="search" {
            input name="queue" value=[queue] placeholder="queue" aria-label="Queue" data-search size="24";
            button { "Search" }
        }
        @if groups.is_empty() { (nothing(&page, queue)) }
        @else {
            (table(&page, groups, now))
            @if groups.len() > ROWS as usize {
                p.note { "There are more groups. The first " (ROWS) " are shown, those that are held up first. Name a queue, or list more on the command line." }
            }
        }
        details.cli { summary { "The same on the command line" } pre data-copy { code { (Hostile(&command(queue))) } } }
    };
    Ok(document(&page, Document { title: "Groups", is_live: true, actions: html! {}, body }))
}

async fn read(page: &Page, queue: Option<&str>) -> Result<Timed<Vec<GroupInfo>>, Failure> {
    let mut groups = page.client().groups().limit(ROWS + 1).timeout(LOOK_UP);
    if let Some(queue) = queue {
        groups = groups.queue(queue);
    }
    let groups = groups.await?;
    Ok(Timed::new(page.client().database_time().timeout(LOOK_UP).await?, groups))
}

fn nothing(page: &Page, queue: Option<&str>) -> Markup {
    html! {
        div.panel.empty {
            @match queue {
                Some(_) => { p { "No job of a group of this queue is available or runs. " a href=(page.link("/groups")) { "All groups" } } }
                None => {
                    p { "No job of a group is available or runs. A job belongs to a group by the option " code { "group" } " of its insert." }
                }
            }
        }
    }
}

fn table(page: &Page, groups: &[GroupInfo], now: OffsetDateTime) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "Group" } th { "Queue" } th.num { "Running" } th.num { "Limit" } th.num { "Waiting" }
                th { "First job" } th { "Kind" } th.num { "Since" } th { "Held up by" }
            } }
            tbody { @for one in groups.iter().take(ROWS as usize) {
                @let queue = one.queue.as_str();
                @let jobs = url("/jobs", &[("queue", queue), ("group", &one.group), ("since", "all")]);
                tr {
                    td.clip { a href=(page.link(&jobs)) { (Hostile(&one.group)) } }
                    td.clip { a.plain href=(page.link(&url("/queue", &[("queue", queue)]))) { (Hostile(queue)) } }
                    td.num { (counted(one.running)) }
                    td.num { (limit(one)) }
                    td.num { (counted(one.waiting)) }
                    td.nowrap { @if let Some(head) = one.head { (job_link(page, head)) } }
                    td.clip { @if let Some(kind) = &one.head_kind { (Hostile(kind)) } }
                    td.num { @if let Some(since) = one.head_since { (ago(since, now)) } }
                    td.nowrap { @if let Some(holder) = &one.held_by { (held_by(page, holder)) } }
                }
            } }
        } }
        p.note { "The first job is the first available one. Since: when it could have run. Jobs of a group are counted to 1,000." }
    }
}

/// The number of jobs, which is a lower bound where the library stopped counting.
fn counted(jobs: u64) -> String {
    if jobs < COUNTED_TO { grouped(jobs) } else { format!("{}+", grouped(COUNTED_TO - 1)) }
}

/// Without a first job only the queue's own limit is known.
fn limit(group: &GroupInfo) -> String {
    match group.limit {
        Some(limit) => grouped(u64::from(limit)),
        None if group.head.is_some() => "none".to_owned(),
        None => String::new(),
    }
}

/// The reason why a group's first job waits. A job that the reason names is a link.
fn held_by(page: &Page, holder: &str) -> Markup {
    let job = holder.strip_prefix("job ").and_then(|rest| rest.split_once(','));
    match job.and_then(|(id, rest)| Some((id.parse::<JobId>().ok()?, rest))) {
        Some((id, rest)) => html! { "job " (job_link(page, id)) "," (Hostile(rest)) },
        None => html! { (Hostile(holder)) },
    }
}

/// The command that lists the same groups.
fn command(queue: Option<&str>) -> String {
    match queue {
        Some(queue) => format!("uniqueue queue groups {}", quoted(queue)),
        None => "uniqueue queue groups".to_owned(),
    }
}
