//! The state of the queue at a glance: what is wrong first.

use uniqueue_admin::{Percentiles, Stats};

use super::doctor::{Remedies, findings};
use super::history;
use super::jobs::written;
use crate::pages::prelude::*;
use crate::sampler::Snapshot;

/// The most findings on the page, so that the numbers below stay in sight.
const FINDINGS: usize = 6;

pub(crate) async fn show(page: Page) -> Shown {
    let body = page.sample().await.map(|snapshot| overview(&page, &snapshot)).unwrap_or_default();
    document(&page, Document { title: "Overview", is_live: true, actions: html! {}, body })
}

fn overview(page: &Page, snapshot: &Snapshot) -> Markup {
    let stats = &snapshot.stats;
    html! {
        (findings(page, snapshot, FINDINGS, Remedies::Folded))
        (failed_since(page, snapshot))
        section.states aria-label="Jobs by state" {
            @for one in [JobState::Available, JobState::Running, JobState::Retryable, JobState::Scheduled,
                JobState::Pending, JobState::Discarded, JobState::Completed, JobState::Cancelled] {
                a.tile href=(page.link(&url("/jobs", &[("state", one.as_str()), ("since", "all")]))) {
                    (state(one))
                    b.number { (stats.jobs.get(&one).copied().map(count).unwrap_or_default()) }
                }
            }
        }
        @if let Some(hour) = &snapshot.hour { (history::last_hour(page, hour)) }
        section.columns {
            (times(stats))
            div.panel {
                h2 { "Workers" }
                dl.facts {
                    dt { "Runners" } dd { (grouped(stats.runners)) }
                    dt { "Inserted" } dd { (rate(stats.rates.inserted)) "/s over the last " (span(stats.rates.inserted_over)) }
                    dt { "Completed" } dd { (worked(stats.rates.completed, stats.rates.worked_over)) }
                    dt { "Failed" } dd { (worked(stats.rates.failed, stats.rates.worked_over)) }
                    dt { "Oldest available job" }
                    dd { @match stats.oldest_available_age { Some(age) => { "due for " (span(age)) } None => "none" } }
                    dt { "Queues" } dd { (snapshot.queues.len()) }
                    dt { "Paused" } dd { (snapshot.queues.iter().filter(|queue| queue.settings.paused_at.is_some()).count()) }
                    dt { "Held" } dd { (snapshot.queues.iter().filter(|queue| queue.settings.held_until.is_some()).count()) }
                }
                @if stats.runners == 0 {
                    p.empty { "No runner is alive. Jobs wait until one starts." }
                }
            }
        }
        (cli("uniqueue stats"))
    }
}

/// A link to what failed since the last deploy, or lately.
fn failed_since(page: &Page, snapshot: &Snapshot) -> Markup {
    let failed = |more: &[(&str, &str)]| {
        let pairs = [("state", "retryable"), ("state", "discarded"), ("by", "failure"), ("whole", "but")];
        page.link(&url("/jobs", &[&pairs[..], more].concat()))
    };
    html! {
        p.note {
            "Jobs that failed: " a.inline href=(failed(&[("since", "1h")])) { "in the last hour" }
            @if let Some(deploy) = &snapshot.doctor.deploy {
                ", " a.inline href=(failed(&[("from", &written(deploy.at))])) { "since " (Hostile(&deploy.version)) " came" }
                ", " (ago(deploy.at, snapshot.now()))
            }
        }
    }
}

/// A rate that live runners report with their heartbeats.
fn worked(number: f64, over: Option<Duration>) -> Markup {
    html! { @match over { Some(over) => { (rate(number)) "/s over the last " (span(over)) }, None => "no live runner has reported" } }
}

/// How long jobs waited and ran.
pub(super) fn times(stats: &Stats) -> Markup {
    html! {
        div.panel {
            h2 { "Times" }
            @match &stats.finished {
                Some(finished) => {
                    table.times {
                        thead { tr { th { span.sr { "Time" } } th.num { "p50" } th.num { "p90" } th.num { "p99" } th.num { "max" } } }
                        tbody { (percentiles("waited", finished.wait)) (percentiles("ran", finished.run)) }
                    }
                    p.note { "The last " (grouped(finished.jobs)) " finished jobs, since " (ago(finished.since, stats.asked_at)) "." }
                }
                None => p.empty { "No job has finished yet. Times appear with the first one." }
            }
        }
    }
}

fn percentiles(name: &str, times: Percentiles) -> Markup {
    html! {
        tr { th scope="row" { (name) } @for time in [times.p50, times.p90, times.p99, times.max] { td.num { (span(time)) } } }
    }
}
