//! One queue: its jobs, and its settings.

use uniqueue::JobState;
use uniqueue_admin::{FirstJob, QueueInfo};

use super::forms::settings;
use super::{COUNTS, jobs};
use crate::pages::history::{self, Of};
use crate::pages::prelude::*;

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
