//! One queue: its jobs, and its settings.

use std::sync::Arc;

use maud::{Markup, html};
use uniqueue::{FirstJob, JobState, QueueInfo, Rate};

use super::forms::forms;
use super::{held, jobs, kept};
use crate::access::Right;
use crate::failure::Failure;
use crate::fields::{Fields, url};
use crate::html::{Document, Hostile, Shown, ago, argument, cli, document, grouped, span, state, why};
use crate::page::{LOOK_UP, Page};

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
    let (settings, now) = (&queue.settings, snapshot.now());
    let ask = async { Ok(page.client().queue(name).why().timeout(LOOK_UP).await?) };
    // The page stands without it, as where the database is away.
    let first: Option<Arc<Option<FirstJob>>> = page.shared(&page.app.answers.of(name.to_owned()), ask).await.ok();
    let body = html! {
        p.callout.mono.the-key {
            (Hostile(name))
            @if let Some(at) = settings.paused_at { " " span.badge.warning { "paused" } " " span.note { (ago(at, now.max(at))) } }
            @if let Some(until) = settings.held_until { " " (held(until, now)) }
        }
        @if let Some(first) = first.as_deref().and_then(Option::as_ref) { (why(&page, first.id, &first.obstacles)) }
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
            section.panel { h2 { "Work" } (work(queue)) }
            @if page.may(Right::Queues) { section.panel.actions-panel { h2 { "Change" } (forms(&page, settings)) } }
        }
        (cli(&format!("uniqueue queue list {}", argument(name))))
    };
    Ok(document(&page, Document { title: "Queue", is_live: true, actions: html! {}, body }))
}

/// How the queue is worked, and its settings.
fn work(queue: &QueueInfo) -> Markup {
    let settings = &queue.settings;
    html! {
        dl.facts {
            dt { "Runners" } dd { (grouped(queue.runners)) }
            dt { "Oldest available job" } dd { @match queue.oldest_available_age { Some(age) => { "due for " (span(age)) } None => "none" } }
            dt { "Limit" } dd { @match settings.limit { Some(limit) => { (limit) " at once" } None => "none" } }
            dt { "Limit of each group" } dd { @match settings.group_limit { Some(limit) => { (limit) " at once" } None => "none but the jobs' own" } }
            dt { "Rate" } dd { (rate(settings.rate)) }
            dt { "Rate of each group" } dd { (rate(settings.group_rate)) }
            dt { "May wait" } dd { @match settings.max_waiting { Some(limit) => { (grouped(u64::from(limit))) " available jobs" } None => "any number" } }
            dt { "Turns" } dd { @if settings.fair { "fair: groups take turns, and jobs without a group are one more" } @else { "groups take turns, and jobs without a group come by their time" } }
            dt { "Keeps completed" } dd { (kept(settings.keep_completed)) }
            dt { "Keeps cancelled" } dd { (kept(settings.keep_cancelled)) }
            dt { "Keeps discarded" } dd { (kept(settings.keep_discarded)) }
        }
    }
}

/// A rate in words.
pub(in crate::pages) fn rate(rate: Option<Rate>) -> Markup {
    html! {
        @match rate {
            // The burst is said in words.
            Some(rate) => { (rate.burst(rate.count)) span.note { " · up to " (grouped(u64::from(rate.burst))) " start at once" } }
            None => "any",
        }
    }
}
