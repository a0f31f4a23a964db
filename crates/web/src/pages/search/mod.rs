//! One search box: an id or its first digits, a name of a kind, queue or group, a unique key, or text in args.

mod find;

use std::collections::BTreeSet;

use axum::http::header;

use self::find::{Found, Group, MOST, find};
use super::groups::group_url;
use super::jobs::{JobQuery, SINCE, member, stopped};
use crate::pages::prelude::*;

/// The most bytes that are searched for.
const MAX_BYTES: usize = 1_000;

/// Shows what was found. The only hit is opened at once.
pub(crate) async fn show(page: Page, fields: Fields) -> Result<Response, Failure> {
    let typed = fields.get("q").unwrap_or_default().trim().replace('\0', "");
    let typed = &typed[..typed.floor_char_boundary(MAX_BYTES)];
    if typed.is_empty() {
        let title = "Search";
        return Ok(document(&page, Document { title, is_live: false, actions: html! {}, body: help() }).into_response());
    }
    let page = Arc::new(page);
    let ask = |page: Arc<Page>| {
        let typed = typed.to_owned();
        async move { find(&page, &typed).await }
    };
    let asked = page.ask(ask).await?;
    let hits: Vec<_> = asked.answers.iter().filter(|(_, found)| !found.is_empty()).collect();
    if let [(of, found)] = hits[..]
        && let Some(path) = found.only()
    {
        return Ok(of.go_to(&path));
    }
    let title = format!("Search: {}", crate::html::plain(typed));
    let body = html! {
        (asked.silent())
        @for (of, found) in &asked.answers {
            @if !found.is_empty() || of.among.is_none() {
                @if let Some(place) = &of.among { h2 { "Place " a href=(of.link("/")) { (Cell(place.as_str())) } } }
                (names(of, found))
                (keys(of, found))
                (jobs(of, found, typed))
                @if hits.is_empty() { (nothing(typed)) }
                (searched(of, found, typed))
            }
        }
        @if hits.is_empty() && page.app.all_places().is_some() { (nothing(typed)) }
    };
    Ok(document(&page, Document { title: &title, is_live: false, actions: html! {}, body }).into_response())
}

fn nothing(typed: &str) -> Markup {
    html! { div.panel.empty { p { "Nothing was found for " b { (Hostile(typed)) } "." } (help()) } }
}

impl Found {
    /// The path of each hit, within the dashboard. Jobs come first.
    fn paths(&self) -> Vec<String> {
        let jobs = self.by_id.iter().chain(self.in_args.iter().flat_map(|found| &found.jobs));
        let mut paths: Vec<_> = jobs.map(|job| format!("/jobs/{}", job.id)).collect();
        paths.extend(self.queues.iter().map(|queue| url("/queue", &[("queue", queue)])));
        paths.extend(self.kinds.iter().map(|kind| url("/kind", &[("kind", kind)])));
        paths.extend(self.groups.iter().map(|of| url("/group", &[("queue", of.queue.as_str()), ("group", &of.name)])));
        paths.extend(self.keys.iter().map(|held| url("/key", &[("key", &held.claim.unique_key)])));
        paths
    }

    /// The path of the only hit. A search that was stopped may have missed other jobs with the text in their args.
    fn only(&self) -> Option<String> {
        let was_cut = self.in_args.as_ref().is_some_and(|found| found.cut.is_some() && !found.jobs.is_empty());
        self.paths().pop().filter(|_| self.paths().len() == 1 && !was_cut)
    }

    fn is_empty(&self) -> bool {
        self.paths().is_empty()
    }
}

/// Queues, kinds and groups.
fn names(page: &Page, found: &Found) -> Markup {
    let of_names = |sort: &str, names: &[String]| {
        fitting(names, names.len(), |name| {
            let link = page.link(&url(&format!("/{sort}"), &[(sort, name.as_str())]));
            html! { tr { td.l1 { a.row-link href=(link) { (Cell(name)) } } } }
        })
    };
    let (queues, kinds) = (of_names("queue", &found.queues), of_names("kind", &found.kinds));
    let groups = fitting(&found.groups, found.groups.len(), |Group { queue, name, jobs }| {
        html! { tr {
            td.l1 { a.row-link href=(group_url(page, queue, name)) { (Cell(name)) } " " span.note { "queue " (Cell(queue)) } }
            td.num.r1 { (grouped(*jobs)) " waiting or running" }
        } }
    });
    html! {
        @if !found.groups.is_empty() { (section("Groups", groups.html)) }
        div.columns {
            @if !found.queues.is_empty() { (section("Queues", queues.html)) }
            @if !found.kinds.is_empty() { (section("Kinds", kinds.html)) }
        }
    }
}

fn keys(page: &Page, found: &Found) -> Markup {
    let rows = fitting(&found.keys, found.keys.len(), |held| {
        html! { tr {
            td.clip.l1 { (key_cell(page, &held.claim.unique_key)) }
            td.nowrap.l2 { (job_link(page, held.claim.holder)) " " (state(held.claim.holder_state)) }
            td.clip.r2 { (Cell(&held.kind)) }
        } }
    });
    html! { @if !found.keys.is_empty() { (section("Unique keys that are held", rows.html)) } }
}

fn section(title: &str, rows: Markup) -> Markup {
    html! { section { h2.above { (title) } div.scroll { table.lines { tbody { (rows) } } } } }
}

fn jobs(page: &Page, found: &Found, typed: &str) -> Markup {
    let redacted = |jobs: &[JobRow]| jobs.iter().map(|job| page.app.redacted(job.clone())).collect::<Vec<_>>();
    html! {
        @if !found.by_id.is_empty() {
            section { h2.above { "Jobs by their ids" } (job_rows(page, &redacted(&found.by_id), found.now)) }
        }
        @if let Some(in_args) = found.in_args.as_ref().filter(|in_args| !in_args.jobs.is_empty()) {
            section {
                h2.above {
                    @match member(typed) {
                        Some((name, text)) => { "Jobs with " span.mono { (Hostile(text)) } " in " span.mono { (Hostile(name)) } " of their args" }
                        None => "Jobs with this in their args",
                    }
                }
                (job_rows(page, &redacted(&in_args.jobs[..in_args.jobs.len().min(MOST)]), found.now))
                @if in_args.jobs.len() > MOST { p.note { a.inline href=(page.link(&of_args(typed, 1).url())) { "All of them" } } }
            }
        }
    }
}

/// The sentence that names the parts of a search and their limits.
fn searched(page: &Page, found: &Found, typed: &str) -> Markup {
    html! {
        @match &found.in_args {
            Some(in_args) => {
                @if let Some(cut) = &in_args.cut { (stopped(page, &of_args(typed, 1), cut)) }
            }
            None if page.app.redact.is_some() => p.note { "Args were not searched, because parts of them are hidden here." },
            None => {}
        }
        p.note {
            "Searched: ids, the names of queues, kinds and groups, keys that are held"
            @if found.in_args.is_some() {
                ", and the args of the jobs of the last 24 h. Search the args of the jobs "
                a.inline href=(page.link(&of_args(typed, 2).url())) { "of 7 days" } " or "
                a.inline href=(page.link(&of_args(typed, SINCE.len() - 1).url())) { "of any time" }
            }
            "."
            @if found.has_failed { " Not all of it answered in time." }
        }
    }
}

/// The list of the jobs with a text in their args.
fn of_args(typed: &str, since: usize) -> JobQuery {
    let mut query = JobQuery::of_args(typed);
    query.range.since = since;
    query
}

fn help() -> Markup {
    html! {
        dl.facts {
            dt { "A job" } dd { "its id, or the first four digits of it or more" }
            dt { "A name" } dd { "a kind or a queue, whole or in part; a group, or a part of its name among the first 100 groups" }
            dt { "A key" } dd { "a unique key that is held, or how it begins" }
            dt { "In args" } dd { "any text or number, or a member and its text: " code { "to: ada@example.com" } }
        }
    }
}

/// The names that contain the typed text, for the browser to propose.
pub(crate) async fn suggest(page: Page, fields: Fields) -> Result<Response, Failure> {
    let typed = fields.get("q").unwrap_or_default();
    let page = Arc::new(page);
    let ask = |page: Arc<Page>| {
        let (typed, of) = (typed.to_owned(), fields.get("of").map(ToOwned::to_owned));
        async move { Ok(find::suggestions(&page, &typed, of.as_deref()).await) }
    };
    let mut seen = BTreeSet::new();
    let mut names: Vec<_> = page.ask(ask).await?.answers.into_iter().flat_map(|(_, names)| names).collect();
    names.retain(|name| seen.insert(name.clone()));
    let names = serde_json::to_string(&names).unwrap_or_default();
    Ok(([(header::CONTENT_TYPE, "application/json")], names).into_response())
}
