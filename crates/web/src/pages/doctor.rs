//! Everything that `doctor` found, and what it could not look at.

use uniqueue_admin::{Finding, Severity};

use crate::pages::prelude::*;
use crate::sampler::{Doctor, Snapshot};

pub(crate) async fn show(page: Page) -> Result<Shown, Failure> {
    let page = Arc::new(page);
    let asked = page.ask(|page| async move { Ok(page.sample().await) }).await?;
    let across = match page.app.all_places() {
        Some(all) => Some(all.across.latest().await),
        None => None,
    };
    let body = html! {
        (asked.silent())
        @if let Some(across) = &across {
            @match across {
                Some(found) if found.is_empty() => p.callout.ok { "The places fit together." },
                Some(found) => (list(&page, found, 100, Remedies::Shown)),
                None => p.callout.ok { "The doctor is comparing the places." },
            }
        }
        @for (page, snapshot) in &asked.answers {
            @if let Some(place) = &page.among { h2 { "Place " a href=(page.link("/doctor")) { (Cell(place.as_str())) } } }
            @if let Some(snapshot) = snapshot { (of_queue(page, snapshot)) }
        }
        p.note { "Remedies are to be copied. The dashboard runs none of them." }
        (cli("uniqueue doctor"))
    };
    Ok(document(&page, Document { title: "Doctor", is_live: true, actions: html! {}, body }))
}

/// The findings of a queue. On the page of the queue itself also what was looked at.
fn of_queue(page: &Page, snapshot: &Snapshot) -> Markup {
    html! {
        (findings(page, snapshot, 100, Remedies::Shown))
        @if let Some(diagnosis) = snapshot.doctor.diagnosis.as_ref().filter(|_| page.among.is_none()) {
            div.columns {
                section.panel {
                    h2 { "Database" }
                    dl.facts {
                        dt { "Database" } dd { (Hostile(&diagnosis.database)) }
                        dt { "Schema" } dd { (Hostile(diagnosis.schema.as_str())) }
                        dt { "Role" } dd { (Hostile(&diagnosis.role)) }
                        dt { "Server" } dd { (Hostile(&diagnosis.server_version)) }
                        dt { "Looked" } dd { (ago(diagnosis.at, snapshot.now())) }
                    }
                }
                section.panel {
                    h2 { (diagnosis.checks.len()) " checks" }
                    p.note { @for (at, check) in diagnosis.checks.iter().enumerate() { @if at > 0 { ", " } (check) } }
                    @for skipped in &diagnosis.skipped {
                        p { b { "Skipped: " (Hostile(&skipped.check)) ". " } (Hostile(&skipped.why))
                            @if let Some(remedy) = &skipped.remedy { " " (Hostile(remedy)) } }
                    }
                }
            }
        }
    }
}

/// The most subjects of a code that its line names.
const NAMED: usize = 3;

/// The most findings of a code that are shown.
const SHOWN: usize = 20;

/// How much of a finding is seen before it is opened.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Remedies {
    /// A line, which opens.
    Folded,
    Shown,
}

/// The findings, the worst first, up to a number of codes.
pub(super) fn findings(page: &Page, snapshot: &Snapshot, most: usize, remedies: Remedies) -> Markup {
    let Doctor { diagnosis, failure, .. } = &snapshot.doctor;
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
            Some(diagnosis) => (list(page, &diagnosis.findings, most, remedies)),
            None if failure.is_some() => {}
            None => p.callout.notice { "The doctor is looking at the queue." },
        }
    }
}

/// These findings, by their codes.
pub(super) fn list(page: &Page, findings: &[Finding], most: usize, remedies: Remedies) -> Markup {
    let mut codes: Vec<Vec<&Finding>> = Vec::new();
    for finding in findings {
        match codes.iter_mut().find(|of| of[0].code == finding.code && of[0].severity == finding.severity) {
            Some(of) => of.push(finding),
            None => codes.push(vec![finding]),
        }
    }
    let found = fitting(&codes, most, |of| one_code(page, of, remedies));
    html! {
        section.findings aria-label="Findings of the doctor" {
            (found.html)
            @if found.shown < found.of {
                p.note {
                    "And " (found.of - found.shown) " more: "
                    @if page.path() == "/doctor" { code { "uniqueue doctor" } " lists them all." }
                    @else { a.inline href=(page.link("/doctor")) { "Doctor" } "." }
                }
            }
        }
    }
}

/// The findings with one code.
fn one_code(page: &Page, of: &[&Finding], remedies: Remedies) -> Markup {
    let first = of[0];
    let class = match first.severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
        _ => "notice",
    };
    let line = html! {
        span.severity { (first.severity.as_str()) }
        code { (first.code.as_str()) }
        span {
            @if of.len() == 1 { @if !first.subject.is_empty() { (subject(page, first, remedies == Remedies::Shown)) ": " } (Hostile(&first.seen)) }
            @else {
                b { (of.len()) } " · "
                @for (at, one) in of.iter().take(NAMED).enumerate() { @if at > 0 { ", " } (Hostile(&one.subject)) }
                @if of.len() > NAMED { " and " (of.len() - NAMED) " more" }
            }
        }
    };
    html! {
        @if remedies == Remedies::Shown {
            section class={ "finding " (class) } { div.line { (line) } (each(page, of, remedies)) }
        } @else {
            details class={ "finding " (class) } { summary { (line) } (each(page, of, remedies)) }
        }
    }
}

/// The subject of a finding. In a line that opens, the subject has no link.
fn subject(page: &Page, finding: &Finding, is_link: bool) -> Markup {
    html! {
        @match subject_path(page, &finding.subject).filter(|_| is_link) {
            Some(path) => a.inline href=(page.link(&path)) { b { (Hostile(&finding.subject)) } },
            None => b { (Hostile(&finding.subject)) },
        }
    }
}

/// Each finding with its remedy, and a link to what it is about.
fn each(page: &Page, of: &[&Finding], remedies: Remedies) -> Markup {
    let shown = fitting(of, SHOWN, |one| {
        html! { div.remedy {
            @if of.len() > 1 { p { (subject(page, one, true)) ": " (Hostile(&one.seen)) } }
            @else if remedies == Remedies::Folded && subject_path(page, &one.subject).is_some() { p { (subject(page, one, true)) } }
            p { (Hostile(&one.remedy.advice)) }
            @for text in [&one.remedy.command, &one.remedy.sql].into_iter().flatten() {
                pre data-copy { code { (Hostile(text)) } }
            }
        } }
    });
    html! { (shown.html) (shown.note()) }
}

/// The page of a finding's subject. A finding about several places has none.
fn subject_path(page: &Page, subject: &str) -> Option<String> {
    let (sort, name) = subject.split_once(' ').filter(|_| page.app.all_places().is_none())?;
    match sort {
        "queue" => Some(url("/queue", &[("queue", name)])),
        "kind" => Some(url("/kind", &[("kind", name)])),
        "runner" => Some("/runners".to_owned()),
        "periodic" => Some("/periodic".to_owned()),
        "session" => Some("/waiting".to_owned()),
        _ => None,
    }
}
