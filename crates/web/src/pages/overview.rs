//! The state of the queue at a glance: what is wrong first.

use maud::{Markup, html};
use uniqueue::{Diagnosis, Finding, JobState, Percentiles, Severity};

use crate::fields::url;
use crate::html::{
    Document, Hostile, Shown, ago, cli, count, document, fitting, grouped, rate, span, sparkline, state,
};
use crate::page::Page;
use crate::snapshot::{Doctor, POINTS, Point, Snapshot};

/// The most findings on the page, so that the numbers below stay in sight.
const FINDINGS: usize = 6;

pub(crate) async fn show(page: Page) -> Shown {
    let body = page.sample().await.map(|snapshot| overview(&page, &snapshot)).unwrap_or_default();
    document(&page, Document { title: "Overview", is_live: true, actions: html! {}, body })
}

fn overview(page: &Page, snapshot: &Snapshot) -> Markup {
    let stats = &snapshot.stats;
    html! {
        (findings(page, snapshot, FINDINGS))
        section.states aria-label="Jobs by state" {
            @for one in [JobState::Available, JobState::Running, JobState::Retryable, JobState::Scheduled,
                JobState::Pending, JobState::Discarded, JobState::Completed, JobState::Cancelled] {
                a.tile href=(page.link(&url("/jobs", &[("state", one.as_str()), ("since", "all")]))) {
                    (state(one))
                    b.number { (stats.jobs.get(&one).copied().map(count).unwrap_or_default()) }
                }
            }
        }
        section.charts aria-label="Rates" {
            (chart(snapshot, "Inserted", "/s", "s-available", stats.rates.inserted, |point| point.inserted))
            (chart(snapshot, "Completed", "/s", "s-completed", stats.rates.completed, |point| point.completed))
            (chart(snapshot, "Failed attempts", "/s", "s-discarded", stats.rates.failed, |point| point.failed))
            (chart(snapshot, "Available", "", "s-scheduled", 0.0, |point| point.available))
        }
        section.columns {
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
            div.panel {
                h2 { "Workers" }
                dl.facts {
                    dt { "Runners" } dd { (grouped(stats.runners)) }
                    dt { "Oldest available job" }
                    dd { @match stats.oldest_available_age { Some(age) => { "due for " (span(age)) } None => "none" } }
                    dt { "Queues" } dd { (snapshot.queues.len()) }
                    dt { "Paused" } dd { (snapshot.queues.iter().filter(|queue| queue.settings.paused_at.is_some()).count()) }
                    dt { "Held" } dd { (snapshot.queues.iter().filter(|queue| queue.settings.held_until.is_some()).count()) }
                }
                @if stats.runners == 0 {
                    p.empty { "No runner is alive. Jobs wait until one starts: see " code { "Runner" } " in the library, or " code { "uniqueue demo" } "." }
                }
            }
        }
        (cli("uniqueue stats"))
    }
}

fn chart(snapshot: &Snapshot, name: &str, unit: &str, class: &str, now: f64, of: fn(&Point) -> f64) -> Markup {
    let values: Vec<f64> = snapshot.history.iter().map(of).collect();
    let shown = if unit.is_empty() { grouped(values.last().copied().unwrap_or_default() as u64) } else { rate(now) };
    html! {
        div.panel.chart {
            div.chart-head { h2 { (name) } b.number { (shown) @if !unit.is_empty() { small { (unit) } } } }
            (sparkline(&format!("{name}, the last {} samples", values.len()), class, &values, POINTS))
        }
    }
}

fn percentiles(name: &str, times: Percentiles) -> Markup {
    html! {
        tr { th scope="row" { (name) } @for time in [times.p50, times.p90, times.p99, times.max] { td.num { (span(time)) } } }
    }
}

/// The findings of `doctor`, the worst first, up to a number of them.
pub(super) fn findings(page: &Page, snapshot: &Snapshot, most: usize) -> Markup {
    let Doctor { diagnosis, failure } = &snapshot.doctor;
    html! {
        @if let Some(failure) = failure {
            p.callout.warning role="alert" { "The doctor's last look failed: " (Hostile(failure)) }
        }
        @match diagnosis {
            Some(diagnosis) if diagnosis.findings.is_empty() => {
                p.callout.ok {
                    "The doctor found nothing in " (diagnosis.checks.len()) " checks, " (ago(diagnosis.at, snapshot.now())) "."
                }
            }
            Some(diagnosis) => (list(page, diagnosis, most)),
            None if failure.is_some() => {}
            None => p.callout.ok { "The doctor is looking at the queue." },
        }
    }
}

fn list(page: &Page, diagnosis: &Diagnosis, most: usize) -> Markup {
    let found = fitting(&diagnosis.findings, most, one_finding);
    html! {
        section.findings aria-label="Findings of the doctor" {
            (found.html)
            @if found.shown < found.of {
                p.note {
                    "And " (found.of - found.shown) " more: "
                    @if page.path() == "/doctor" { code { "uniqueue doctor" } " lists them all." }
                    @else { a href=(page.link("/doctor")) { "Doctor" } "." }
                }
            }
        }
    }
}

fn one_finding(finding: &Finding) -> Markup {
    let class = match finding.severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
        _ => "notice",
    };
    html! {
        details class={ "finding " (class) } {
            summary {
                span.severity { (finding.severity.as_str()) }
                code { (finding.code.as_str()) }
                span { @if !finding.subject.is_empty() { b { (Hostile(&finding.subject)) } ": " } (Hostile(&finding.seen)) }
            }
            p { (Hostile(&finding.remedy.advice)) }
            @for text in [&finding.remedy.command, &finding.remedy.sql].into_iter().flatten() {
                pre data-copy { code { (Hostile(text)) } }
            }
        }
    }
}
