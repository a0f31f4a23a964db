//! One job: its history, its args, its claim, and what can be done with it.

mod actions;
mod relatives;
mod timeline;

use uniqueue::Duplicate;
use uniqueue_admin::Obstacle;

use self::actions::actions;
use self::relatives::Relatives;
use self::timeline::{errors, has_failed, timeline};
use super::explain::{MADE_FROM, made_from};
use super::groups::group_url;
use super::key::held;
use crate::pages::prelude::*;

pub(crate) use self::actions::{change, delete};

/// The most bytes of HTML of each part of a job. With all of them the page has less than 100 KB.
const ARGS: usize = 24_000;
const META: usize = 6_000;
const PROGRESS: usize = 4_000;
const OUTPUT: usize = 14_000;

/// The result of each change of this page: the word in the URL, and the sentence.
const DONE: [(&str, &str); 12] = [
    ("retry", "The job is available again."),
    ("waits", "The job waits again for its parents."),
    ("retry_graph", "The failed jobs of the graph are available again, and those after them wait for them."),
    ("cancel", "The job is cancelled."),
    ("discard", "The job is discarded."),
    ("release", "The job is released."),
    ("reschedule", "The job has another time."),
    ("priority", "The job has another priority."),
    ("release_claim", "The job has given up its claim. The key is free."),
    (
        "refused",
        "The job was not retried: another job holds its unique key, and its policy does not let it go on without.",
    ),
    ("discarded_instead", "The job was discarded: another job holds its unique key, and its policy says so."),
    ("none", "Nothing changed: the job is in a state to which this does not apply."),
];

/// A job as the database knows it.
pub(crate) struct FoundJob {
    /// `None`: it is gone.
    job: Option<JobRow>,
    /// The holder of its key.
    holder: Option<Duplicate>,
    /// The reasons why it does not start.
    obstacles: Vec<Obstacle>,
    relatives: Relatives,
    /// The canonical text of its key.
    made_from: Option<String>,
}

pub(crate) async fn show(page: Page, Path(path): Path<IdPath<JobId>>, fields: Fields) -> Result<Shown, Failure> {
    let answer = page.shared(path.id, read(&page, path.id)).await?;
    let (now, FoundJob { job, holder, obstacles, relatives, made_from }) = (answer.now(), &answer.of);
    let job = page.app.redacted(job.clone().ok_or(Failure::NotFound("job"))?);
    let whole = format!("uniqueue job show {}", job.id);
    let done = fields.get("did").and_then(|did| DONE.iter().find(|(word, _)| *word == did));
    let body = html! {
        @if let Some((_, text)) = done { p.callout.notice role="status" { (text) } }
        div.row.job-head {
            (state(job.state))
            span { "attempt " (job.attempt) " of " (job.max_attempts) }
            code { (job.id) }
        }
        (why(&page, job.id, obstacles))
        @if has_failed(&job) { (errors(&page, &job, &whole, now)) }
        div.columns.job {
            section.panel { h2 { "History" } (timeline(&job, now)) }
            (facts(&page, &job, now))
            @if let Some(key) = &job.unique_key { (claim(&page, &job, key, made_from.as_deref(), holder.as_ref(), now)) }
            (relatives.panel(&page, job.id))
            (actions(&page, &job, holder.as_ref().map(|holder| holder.holder), relatives.has_parents()))
        }
        section.panel { h2 { "Args" } (json(job.args.get(), ARGS, &whole)) }
        @if !job.meta.is_empty() { section.panel { h2 { "Meta" } (json(&serde_json::Value::Object(job.meta.clone()).to_string(), META, &whole)) } }
        @if let Some(progress) = &job.progress { section.panel { h2 { "Progress" } (json(&progress.to_string(), PROGRESS, &whole)) } }
        @if let Some(output) = &job.output { section.panel { h2 { "Output" } (json(&output.to_string(), OUTPUT, &whole)) } }
        @if !has_failed(&job) { (errors(&page, &job, &whole, now)) }
        (cli(&whole))
    };
    let title = format!("Job {}", plain(job.kind.as_str()));
    Ok(document(&page, Document { title: &title, is_live: !job.state.is_final(), actions: html! {}, body }))
}

/// The job, the holder of its key, and why it waits.
async fn read(page: &Page, id: JobId) -> Result<Timed<FoundJob>, Failure> {
    let job = page.client().job(id).timeout(LOOK_UP).await?;
    let holder = match job.as_ref().and_then(|job| job.unique_key.as_deref()) {
        Some(key) => held(page, key).await?.map(|held| held.claim),
        None => None,
    };
    let obstacles = page.admin().why(id).timeout(LOOK_UP).await?;
    let relatives = relatives::read(page, id).await?;
    let made_from = match &job {
        Some(job) => made_from(page, job).await,
        None => None,
    };
    Ok(Timed::new(page.now().await?, FoundJob { job, holder, obstacles, relatives, made_from }))
}

fn facts(page: &Page, job: &JobRow, now: OffsetDateTime) -> Markup {
    html! {
        section.panel {
            h2 { "Job" }
            dl.facts {
                dt { "Kind" } dd { a href=(page.link(&url("/kind", &[("kind", job.kind.as_str())]))) { (Hostile(&job.kind)) } }
                dt { "Queue" } dd { a href=(page.link(&url("/queue", &[("queue", job.queue.as_str())]))) { (Hostile(&job.queue)) } }
                @if let Some(group) = &job.group_key {
                    dt { "Group" }
                    dd {
                        a href=(group_url(page, job.queue.as_str(), group)) { (Hostile(group)) }
                        @match (job.in_order, job.group_limit) {
                            (true, _) => " · one at a time, in order",
                            (false, Some(limit)) => { " · at most " (limit) " at once" }
                            (false, None) => {}
                        }
                    }
                }
                dt { "Priority" } dd { (job.priority) }
                dt { "Inserted" } dd { (at(job.created_at)) " · " (ago(job.created_at, now)) }
                dt { "Due" } dd { (at(job.scheduled_at)) " · " (ago(job.scheduled_at, now)) }
                @if let Some(until) = job.expires_at.filter(|_| job.attempted_at.is_none()) {
                    dt { "Expires" }
                    dd { (at(until)) " · " (ago(until, now)) @if !job.state.is_final() { ", unless it has started" } }
                }
                @if let Some(worker) = job.worker { dt { "Runner" } dd.mono { (worker) } }
                dt { "Run" } dd { (job.run) }
                @if let Some(other) = job.replaced_by { dt { "Replaced by" } dd { (job_link(page, other)) } }
            }
        }
    }
}

pub(super) fn claim(
    page: &Page,
    job: &JobRow,
    key: &str,
    made_from: Option<&str>,
    holder: Option<&Duplicate>,
    now: OffsetDateTime,
) -> Markup {
    html! {
        section.panel {
            h2 { "Unique key" }
            @if let Some(text) = made_from { p.mono { (Start(text, MADE_FROM)) } }
            p class=[made_from.map(|_| "note")] { (key_link(page, key)) }
            dl.facts {
                dt { "Claim" }
                dd {
                    @match holder {
                        Some(holder) if holder.holder == job.id => { b { "This job holds the key." } " It is free " (holder.frees()) "." }
                        Some(holder) => {
                            b { "Another job holds the key: " } (job_link(page, holder.holder)) " " (state(holder.holder_state))
                            ". It is free " (holder.frees()) "."
                        }
                        None => "The key is free: no job holds it."
                    }
                }
                dt { "States" }
                dd {
                    @match job.unique_states {
                        Some(states) if states.is_empty() => "none: it has given up its claim for good",
                        Some(states) => (states),
                        None => "none",
                    }
                    @if job.until_start { "; until a worker fetches it" }
                }
                @if let Some(until) = job.unique_until { dt { "Until" } dd { (at(until)) " · " (ago(until, now)) } }
                @if let Some(last) = job.updated_at {
                    dt { "Updated" }
                    dd {
                        @if job.updates == 1 { "once by a duplicate, " } @else { (grouped(u64::from(job.updates))) " times by duplicates, last " }
                        (ago(last, now))
                        @if let Some(id) = job.updated_by { ", by the insert with id " span.mono { (id) } }
                    }
                }
            }
        }
    }
}
