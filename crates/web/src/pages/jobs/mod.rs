//! The list of jobs: its filter is in the URL, and its pages go on after a job.

mod export;
mod filter;
mod filter_form;
mod range;
mod read;

use tokio::time::Instant;

use crate::pages::prelude::*;

pub(crate) use self::export::export;
pub(crate) use self::filter::{JobQuery, member};
pub(crate) use self::range::{CLOCKS, Range, SINCE, written};
pub(crate) use self::read::{Cut, Found, read};

/// The most jobs on a page.
const ROWS: u32 = 50;

/// How long a page may search, from the request on: a stopped search and the drawing of the page end within [`LOOK_UP`].
const SEARCH: Duration = LOOK_UP.checked_sub(Duration::from_millis(100)).unwrap();

pub(crate) async fn list(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let (page, query) = (Arc::new(page), Arc::new(JobQuery::read(&fields)?));
    check_args(&page, &query)?;
    let deadline = Instant::now() + SEARCH;
    let ask = |page: Arc<Page>| {
        let query = Arc::clone(&query);
        async move {
            let now = page.now().await?;
            let found = read(&page, &query, now, ROWS + 1, deadline).await?;
            let jobs: Vec<_> = found.jobs.into_iter().map(|job| page.app.redacted(job)).collect();
            Ok((now, jobs, found.cut))
        }
    };
    let asked = page.ask(ask).await?;
    let mut jobs = asked.rows(|(now, jobs, _)| (*now, jobs));
    if page.app.all_places().is_some() {
        // The first jobs of all places are among the first ones of each.
        jobs.sort_by_key(|(.., job)| job.id);
        if !query.is_oldest_first {
            jobs.reverse();
        }
    }
    let may_change = page.may(Right::Change) && page.app.all_places().is_none();
    let rows = job_table(&page, &jobs, ROWS as usize, may_change);
    let next = rows.last(&jobs).map(|(.., job)| query.after(job.id));
    let first = query.after.map(|_| query.with(|_| ()));
    let cuts: Vec<_> = asked.answers.iter().filter_map(|(page, (.., cut))| Some((page, cut.as_ref()?))).collect();
    let body = html! {
        (filter_form::filters(&page, &query))
        (asked.silent())
        @for (page, cut) in &cuts { (stopped(page, &query, cut)) }
        @if jobs.is_empty() {
            @if cuts.is_empty() { (nothing(&page, &query)) }
        } @else {
            form method="post" action=(page.link("/bulk")) {
                @if may_change { (bulk_bar(&page, &query)) }
                (rows.html)
            }
        }
        (pages(&page, first.as_deref(), next.as_deref()))
        (cli(&query.command()))
    };
    let actions = html! {
        @if page.app.all_places().is_none() {
            @for (format, name) in [("csv", "CSV"), ("jsonl", "JSON lines")] {
                a.button.quiet href=(page.link(&query.url_of("/jobs/export", &[("format", format)]))) download { "Export " (name) }
            }
        }
    };
    Ok(document(&page, Document { title: "Jobs", is_live: false, actions, body }))
}

/// Args and errors cannot be searched where parts of jobs are hidden.
pub(super) fn check_args(page: &Page, query: &JobQuery) -> Result<(), Failure> {
    match (query.word("args").or(query.word("error-pattern")).is_some()) && page.app.redact.is_some() {
        true => {
            Err(Failure::Bad("Args and errors cannot be searched here, because parts of jobs are hidden.".to_owned()))
        }
        false => Ok(()),
    }
}

/// Says how far a search came that was stopped.
pub(crate) fn stopped(page: &Page, query: &JobQuery, cut: &Cut) -> Markup {
    html! {
        p.callout.warning role="alert" {
            @if let Some(place) = &page.among { b { "Place " (Hostile(place.as_str())) } ": " }
            "The search would take longer than " (LOOK_UP.as_secs()) " s and was stopped. "
            @match cut {
                Cut::Whole => "Choose a shorter time, a state or a queue.",
                Cut::Since(at_time, id) => {
                    "The jobs since " (at(*at_time)) " UTC were searched. "
                    a.inline href=(page.link(&query.after(*id))) { "Search the jobs before" }
                    ", or choose a shorter time, a state or a queue."
                }
            }
        }
    }
}

/// The changes that the ticked rows, or all jobs of the filter, can get.
fn bulk_bar(page: &Page, query: &JobQuery) -> Markup {
    html! {
        @for (name, value) in query.pairs() {
            @if name != "after" && name != "whole" { input type="hidden" name=(name) value=(value); }
        }
        div.row.bulk {
            select name="whole" aria-label="Which jobs" {
                option value="" { "Ticked jobs" }
                option value="yes" { "All jobs of this filter" }
                option value="but" selected[query.is_but_ticked] { "All jobs of this filter but the ticked ones" }
            }
            (submit("verb", "retry", "Retry…", ""))
            (submit("verb", "cancel", "Cancel…", ""))
            (submit("verb", "discard", "Discard…", ""))
            (submit("verb", "release", "Release…", ""))
            @if page.may(Right::Delete) { (submit("verb", "delete", "Delete…", "danger")) }
            span.note { b data-ticked data-script { "0" } span data-script { " ticked. " } "A plan is shown before anything changes." }
        }
    }
}

fn nothing(page: &Page, query: &JobQuery) -> Markup {
    let is_bounded = query.range.is_own() || SINCE[query.range.since].2.is_some();
    html! {
        div.panel.empty {
            p { "No job meets these conditions." }
            @if is_bounded {
                p {
                    @if query.range.is_own() { "The list has a range of time. " }
                    @else { "The list goes back " (SINCE[query.range.since].1) ". " }
                    a.inline href=(page.link(&query.with(|other| other.range = Range { since: SINCE.len() - 1, ..Range::default() }))) { "Search any time" } "."
                }
            } @else if query.pairs().len() > 1 {
                p { a.inline href=(page.link("/jobs?since=all")) { "Remove all conditions" } "." }
            } @else {
                p { "Insert one: " a.inline href=(page.link("/insert")) { "Insert" } ", or " code { "uniqueue job insert" } "." }
            }
        }
    }
}
