//! Rows of lists, with the column of their place, links to jobs and keys, and why a job waits.

use std::hash::{DefaultHasher, Hash, Hasher};

use maud::{Markup, html};
use time::OffsetDateTime;
use uniqueue::{JobId, JobRow};
use uniqueue_admin::{Obstacle, ObstacleCode};

use super::{Cell, Hostile, Start, ago, state};
use crate::fields::url;
use crate::page::Page;

/// The most bytes of the rows of a list. With the rest of it a page has less than 100 KB.
const MOST: usize = 78_000;

/// The most bytes of the args in a row: many of them are quotes, which take six each.
const ARGS: usize = 240;

/// Rows of a list.
pub(crate) struct Rows {
    pub(crate) html: Markup,
    /// How many there are of the list.
    pub(crate) shown: usize,
    pub(crate) of: usize,
}

impl Rows {
    /// The rows under these heads. On a phone each row has two lines.
    pub(crate) fn table(&self, heads: Markup) -> Markup {
        html! { div.scroll { table.lines { thead { tr { (heads) } } tbody { (self.html) } } } }
    }

    /// The last row that is shown of this list, where the list goes on.
    pub(crate) fn last<'a, T>(&self, list: &'a [T]) -> Option<&'a T> {
        if self.shown < self.of { list.get(self.shown.checked_sub(1)?) } else { None }
    }

    /// Says that a list goes on.
    pub(crate) fn note(&self) -> Markup {
        html! { @if self.shown < self.of { p.note { "The first " (self.shown) " are shown. There are more." } } }
    }
}

/// The links below a list: to its first page and to its next one.
pub(crate) fn pages(page: &Page, first: Option<&str>, next: Option<&str>) -> Markup {
    html! {
        p.row.pages {
            @if let Some(first) = first { a.button href=(page.link(first)) { "First page" } }
            @if let Some(next) = next { a.button rel="next" href=(page.link(next)) { "Next page" } }
        }
    }
}

/// The first `most` rows of a list, or fewer where long names would make the page larger than 100 KB.
pub(crate) fn fitting<T>(list: &[T], most: usize, row: impl Fn(&T) -> Markup) -> Rows {
    let (mut html, mut shown) = (String::new(), 0);
    for one in list.iter().take(most) {
        let maud::PreEscaped(text) = row(one);
        if shown > 0 && html.len() + text.len() > MOST {
            break;
        }
        html.push_str(&text);
        shown += 1;
    }
    Rows { html: maud::PreEscaped(html), shown, of: list.len() }
}

/// The part of an id that differs most: UUIDv7 begins with the time.
pub(crate) fn short(id: JobId) -> String {
    let text = id.to_string();
    format!("{}…{}", &text[..8], &text[text.len() - 6..])
}

/// A link to a job.
pub(crate) fn job_link(page: &Page, id: JobId) -> Markup {
    html! { a.mono href=(page.link(&format!("/jobs/{id}"))) title=(id) { (short(id)) } }
}

/// A link to a unique key.
pub(crate) fn key_link(page: &Page, key: &str) -> Markup {
    html! { a.mono.key href=(page.link(&url("/key", &[("key", key)]))) { (Hostile(key)) } }
}

/// Whether a key says nothing to people.
fn is_hash(key: &str) -> bool {
    key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The same in a cell of a list.
pub(crate) fn key_cell(page: &Page, key: &str) -> Markup {
    html! { a.mono.key href=(page.link(&url("/key", &[("key", key)]))) title=[is_hash(key).then_some(key)] {
        @if is_hash(key) { (&key[..8]) "…" (&key[58..]) } @else { (Cell(key)) }
    } }
}

/// A button that sends a field of its form.
pub(crate) fn submit(name: &str, value: &str, label: &str, class: &str) -> Markup {
    html! { button.(class) name=(name) value=(value) { (label) } }
}

/// A table of jobs of one place.
pub(crate) fn job_rows(page: &Page, jobs: &[JobRow], now: OffsetDateTime) -> Markup {
    let jobs: Vec<_> = jobs.iter().map(|job| (page, now, job)).collect();
    let rows = job_table(page, &jobs, jobs.len(), false);
    html! { (rows.html) (rows.note()) }
}

/// A table of at most `most` jobs, each with the page of its place and the time there. With boxes to tick, it stands in a form.
pub(crate) fn job_table(page: &Page, jobs: &[(&Page, OffsetDateTime, &JobRow)], most: usize, has_boxes: bool) -> Rows {
    let has_failed = jobs.iter().take(most).any(|(.., job)| last_failure(job).is_some());
    let rows = fitting(jobs, most, |(page, now, job)| job_row(page, job, *now, has_boxes, has_failed));
    let html = rows.table(html! {
        @if has_boxes { th { input type="checkbox" data-tick-all data-script aria-label="Tick all rows"; } }
        (place_head(page))
        th { "Job" } th { "Kind" } th { "State" } th { "Queue" } th { "Args" }
        th.num { "Attempt" } @if has_failed { th.num { "Last failure" } } th.num { "Inserted" }
    });
    Rows { html, ..rows }
}

/// When a job last failed. A note by hand has no time.
fn last_failure(job: &JobRow) -> Option<OffsetDateTime> {
    job.errors.last().map(|error| error.at).filter(|at| *at > OffsetDateTime::UNIX_EPOCH)
}

fn job_row(page: &Page, job: &JobRow, now: OffsetDateTime, has_boxes: bool, has_failed: bool) -> Markup {
    html! {
        tr id={ "job-" (job.id) } {
            @if has_boxes {
                td.c-box { input type="checkbox" name="id" value=(job.id) aria-label={ "Tick job " (short(job.id)) }; }
            }
            (place_cell(page))
            td.nowrap.c-id { a.mono.row-link href=(page.link(&format!("/jobs/{}", job.id))) title=(job.id) { (short(job.id)) } }
            td.clip.l1 { (Cell(&job.kind)) }
            td.nowrap.r1 { (state(job.state)) }
            td.clip { (Cell(&job.queue)) }
            td.clip.mono.l2 { (Start(job.args.get(), ARGS)) }
            td.num { (job.attempt) "/" (job.max_attempts) }
            @if has_failed { td.num { @if let Some(at) = last_failure(job) { (ago(at, now)) } } }
            td.num.r2 { (ago(job.created_at, now)) }
        }
    }
}

/// The head of the column. It is empty on pages of one queue.
pub(crate) fn place_head(page: &Page) -> Markup {
    html! { @if page.among.is_some() || page.app.all_places().is_some() { th { "Place" } } }
}

/// The cell of a row.
pub(crate) fn place_cell(page: &Page) -> Markup {
    html! { @if let Some(place) = &page.among { td.clip { a href=(page.link("/")) { (Cell(place.as_str())) } } } }
}

/// An id of a row for a name of any length, which several places may have. Rows keep their place by it when the page is read
/// again.
pub(crate) fn row_id(page: &Page, sort: &str, name: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    (page.place(), name).hash(&mut hasher);
    format!("{sort}-{:016x}", hasher.finish())
}

/// A panel with what keeps a job from starting, the first obstacle first. Empty where the job runs or is final.
pub(crate) fn why(page: &Page, id: JobId, obstacles: &[Obstacle]) -> Markup {
    let waits = |obstacle: &&Obstacle| !matches!(obstacle.code, ObstacleCode::Final | ObstacleCode::Running);
    let obstacles: Vec<_> = obstacles.iter().filter(waits).collect();
    html! {
        @if !obstacles.is_empty() {
            section.panel.why {
                h2 { "Why it waits" }
                ol { @for obstacle in obstacles { li { (line(page, id, obstacle)) } } }
            }
        }
    }
}

/// An obstacle, with a link to the job that it names, and what to do about it.
fn line(page: &Page, id: JobId, obstacle: &Obstacle) -> Markup {
    html! {
        (Hostile(&obstacle.reason)) (named_job(page, obstacle, Some(id)))
        @if let Some(remedy) = &obstacle.remedy { br; span.note { (Hostile(remedy)) } }
    }
}

/// A link to the job that an obstacle names, unless it is this one.
pub(crate) fn named_job(page: &Page, obstacle: &Obstacle, this: Option<JobId>) -> Markup {
    let job = obstacle.details.get("job").and_then(|job| job.as_str()?.parse::<JobId>().ok());
    html! { @if let Some(job) = job.filter(|job| Some(*job) != this) { " " (job_link(page, job)) } }
}
