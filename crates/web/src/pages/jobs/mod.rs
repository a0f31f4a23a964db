//! The list of jobs: its filter is in the URL, and its pages go on after a job.

mod query;
mod read;

use std::time::Duration;

use maud::{Markup, html};
use tokio::time::Instant;
use uniqueue::{JobRow, JobState};

pub(crate) use self::query::{CLOCKS, JobQuery, SINCE};
use self::read::{Cut, Found};
use crate::access::Right;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::html::{Document, Hostile, Shown, at, cli, document, job_rows, state, submit};
use crate::page::{LOOK_UP, Page};

/// The most jobs on a page.
const ROWS: u32 = 50;

/// How long a page may search, from the request on: a stopped search and the drawing of the page end within [`LOOK_UP`].
const SEARCH: Duration = LOOK_UP.checked_sub(Duration::from_millis(100)).unwrap();

pub(crate) async fn list(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let query = JobQuery::read(&fields)?;
    if query.args.is_some() && page.app.redact.is_some() {
        return Err(Failure::Bad("Args cannot be searched here, because parts of them are hidden.".to_owned()));
    }
    let deadline = Instant::now() + SEARCH;
    let now = page.now().await?;
    let Found { jobs, cut } = read::read(&page, &query, now, ROWS + 1, deadline).await?;
    let has_more = jobs.len() > ROWS as usize;
    let jobs: Vec<JobRow> = jobs.into_iter().take(ROWS as usize).map(|job| page.app.redacted(job)).collect();
    let rows = job_rows(&page, &jobs, now, page.may(Right::Change));
    let last = rows.shown.checked_sub(1).filter(|_| has_more || rows.shown < rows.of);
    let next = last.map(|last| query.after(jobs[last].id));
    let body = html! {
        (chips(&page, &query))
        (search(&page, &query))
        @if let Some(cut) = &cut { (stopped(&page, &query, cut)) }
        @if jobs.is_empty() {
            @if cut.is_none() { (nothing(&page, &query)) }
        } @else {
            form method="post" action=(page.link("/bulk")) {
                (bulk_bar(&page, &query))
                (rows.html)
            }
        }
        p.row.pages {
            @if query.after.is_some() { a.button href=(page.link(&query.with(|_| ()))) { "First page" } }
            @if let Some(next) = next { a.button rel="next" href=(page.link(&next)) { "Next page" } }
        }
        (cli(&query.command()))
    };
    Ok(document(&page, Document { title: "Jobs", is_live: false, actions: html! {}, body }))
}

/// Says how far a search came that was stopped.
fn stopped(page: &Page, query: &JobQuery, cut: &Cut) -> Markup {
    html! {
        p.callout.warning role="alert" {
            "The search would take longer than " (LOOK_UP.as_secs()) " s and was stopped. "
            @match cut {
                Cut::Whole => "Choose a shorter time, a state or a queue.",
                Cut::Since(at_time, id) => {
                    "The jobs since " (at(*at_time)) " UTC were searched. "
                    a href=(page.link(&query.after(*id))) { "Search the jobs before" }
                    ", or choose a shorter time, a state or a queue."
                }
            }
        }
    }
}

/// States, and how far back the list goes: each is a link.
fn chips(page: &Page, query: &JobQuery) -> Markup {
    html! {
        div.chips {
            div.row role="group" aria-label="States" {
                @for one in JobState::ALL {
                    @let is_on = query.states.contains(&one);
                    @let link = query.with(|other| match is_on {
                        true => other.states.retain(|state| *state != one),
                        false => other.states.push(one),
                    });
                    a.chip href=(page.link(&link)) aria-current=[is_on.then_some("true")] { (state(one)) }
                }
            }
            div.row role="group" aria-label="Inserted within" {
                @for (index, (_, label, _)) in SINCE.iter().enumerate() {
                    a.chip href=(page.link(&query.with(|other| other.since = index)))
                        aria-current=[(index == query.since).then_some("true")] { (label) }
                }
                a.chip href=(page.link(&query.with(|other| other.is_oldest_first = !other.is_oldest_first)))
                    aria-current=[query.is_oldest_first.then_some("true")] { "oldest first" }
            }
            @let words = query.words();
            @if words.iter().any(|(_, value)| value.is_some()) || query.attempts.is_some() {
                div.row role="group" aria-label="Conditions" {
                    @for (name, value) in words {
                        @if let Some(value) = value {
                            @let link = query.with(|other| match name {
                                "queue" => other.queue = None,
                                "group" => other.group = None,
                                "kind" => other.kind = None,
                                "key" => other.key = None,
                                "code" => other.code = None,
                                _ => other.args = None,
                            });
                            a.chip.word href=(page.link(&link)) aria-label={ "Remove the condition on " (name) } {
                                (name) " = " span.mono { (Hostile(value)) } span aria-hidden="true" { "×" }
                            }
                        }
                    }
                    @if let Some(attempts) = query.attempts {
                        a.chip.word href=(page.link(&query.with(|other| other.attempts = None))) aria-label="Remove the condition on attempts" {
                            "attempts ≥ " span.mono { (attempts) } span aria-hidden="true" { "×" }
                        }
                    }
                }
            }
        }
    }
}

fn search(page: &Page, query: &JobQuery) -> Markup {
    let can_search_args = page.app.redact.is_none();
    html! {
        form.row.search method="get" action=(page.link("/jobs")) role="search" {
            @for state in &query.states { input type="hidden" name="state" value=(state.as_str()); }
            input type="hidden" name="since" value=(SINCE[query.since].0);
            @if query.is_oldest_first { input type="hidden" name="order" value="oldest"; }
            @if let Some(attempts) = query.attempts { input type="hidden" name="attempts" value=(attempts); }
            @if let Some(code) = &query.code { input type="hidden" name="code" value=(code); }
            input name="kind" value=[query.kind.as_deref()] placeholder="kind" aria-label="Kind" data-search size="16";
            input name="queue" value=[query.queue.as_deref()] placeholder="queue" aria-label="Queue" size="12";
            input name="group" value=[query.group.as_deref()] placeholder="group" aria-label="Group" size="12";
            input name="key" value=[query.key.as_deref()] placeholder="unique key" aria-label="Unique key" size="18";
            @if can_search_args {
                input.mono name="args" value=[query.args.as_deref()] placeholder="args contain {\"user_id\": 42}"
                    aria-label="Args contain this JSON" size="28";
            }
            button { "Search" }
        }
    }
}

/// The changes that the ticked rows, or all jobs of the filter, can get.
fn bulk_bar(page: &Page, query: &JobQuery) -> Markup {
    if !page.may(Right::Change) {
        return html! {};
    }
    html! {
        @for (name, value) in query.pairs() {
            @if name != "after" { input type="hidden" name=(name) value=(value); }
        }
        div.row.bulk {
            select name="whole" aria-label="Which jobs" {
                option value="" { "Ticked jobs" }
                option value="yes" { "All jobs of this filter" }
            }
            (submit("verb", "retry", "Retry…", ""))
            (submit("verb", "cancel", "Cancel…", ""))
            (submit("verb", "release", "Release…", ""))
            @if page.may(Right::Delete) { (submit("verb", "delete", "Delete…", "danger")) }
            span.note { "A plan is shown before anything changes." }
        }
    }
}

fn nothing(page: &Page, query: &JobQuery) -> Markup {
    html! {
        div.panel.empty {
            p { "No job meets these conditions." }
            @if SINCE[query.since].2.is_some() {
                p { "The list goes back " (SINCE[query.since].1) ". " a href=(page.link(&query.with(|other| other.since = SINCE.len() - 1))) { "Search any time" } "." }
            } @else if query.pairs().len() > 1 {
                p { a href=(page.link("/jobs?since=all")) { "Remove all conditions" } "." }
            } @else {
                p { "Insert one: " a href=(page.link("/insert")) { "Insert" } ", or " code { "uniqueue job insert" } "." }
            }
        }
    }
}
