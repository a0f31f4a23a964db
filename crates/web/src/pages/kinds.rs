//! Registered kinds, and one of them.

use serde_json::Value;
use uniqueue::{DEFAULT_MAX_ATTEMPTS, JobFilter};
use uniqueue_admin::{KindRow, RunnerInfo};

use super::failing;
use super::history::{self, Of};
use crate::pages::prelude::*;
use crate::shared::{HOUR, WEEK};

/// The most kinds on the page.
const ROWS: usize = 100;

/// The most runners that are named.
const RUNNERS: usize = 20;

/// The most bytes of a policy's document.
const POLICY: usize = 12_000;

pub(crate) async fn list(page: Page) -> Result<Shown, Failure> {
    let page = Arc::new(page);
    let ask = |page: Arc<Page>| async move {
        let kinds = page.admin().kinds().timeout(LOOK_UP).await?;
        Ok((page.now().await?, kinds))
    };
    let asked = page.ask(ask).await?;
    let mut kinds = asked.rows(|(now, kinds)| (*now, kinds));
    kinds.sort_by_key(|(page, _, kind)| (kind.name.as_str(), page.place()));
    let rows = fitting(&kinds, ROWS, |(page, now, kind)| {
        let name = kind.name.as_str();
        html! { tr {
            (place_cell(page))
            th.l1 scope="row" { a.row-link href=(page.link(&url("/kind", &[("kind", name)]))) { (Cell(name)) } }
            td.clip.r1 { @if let Some(queue) = &kind.queue { (Cell(queue)) } @else { span.note { "default" } } }
            td.num { @match kind.priority { Some(priority) => (priority), None => span.note { "0" } } }
            td.num { @match kind.max_attempts { Some(attempts) => (attempts), None => span.note { (DEFAULT_MAX_ATTEMPTS) } } }
            td.l2.wrap { @match kind.unique_in_words() { Some(words) => (Cell(&words)), None => span.note { "not unique" } } }
            td.num.r2 { (ago(kind.registered_at, kind.registered_at.max(*now))) }
            td.clip { (Cell(&kind.registered_by)) }
        } }
    });
    let body = html! {
        (asked.silent())
        @if kinds.is_empty() {
            p.panel.empty {
                "No kind is registered. A runner registers the kinds of its workers when it starts, and so do "
                code { "Client::register" } " and " code { "register_kind" } " in SQL."
            }
        } @else {
            (rows.table(html! { (place_head(&page)) th { "Kind" } th { "Queue" } th.num { "Priority" } th.num { "Attempts" } th { "Unique" } th.num { "Registered" } th { "By" } }))
            (rows.note())
            p.note { "An insert by SQL, by the command or from here takes from its kind what it does not say itself." }
        }
        (cli("uniqueue kind list"))
    };
    Ok(document(&page, Document { title: "Kinds", is_live: false, actions: html! {}, body }))
}

pub(crate) async fn show(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let name = fields.need("kind")?;
    let kind = page.admin().kind(name).timeout(LOOK_UP).await?;
    let now = page.now().await?;
    let failing = failing::found(&page).await?;
    let failing = failing.of.kinds.iter().find(|one| one.kind.as_str() == name);
    let errors = failing::errors(&page, name).await?;
    let of = Of { kind: Some(name), queue: None, path: "/kind" };
    // The page stands without it, as where the role may not read it.
    let (history, is_known) = history::section(&page, &fields, of).await.unwrap_or_default();
    let runners = page.admin().runners().timeout(LOOK_UP).await?;
    let says_so = |one: &RunnerInfo| (one.kinds.iter().flatten()).any(|kind| kind.as_str() == name);
    let is_known =
        is_known || kind.is_some() || failing.is_some() || runners.iter().any(|one| one.is_alive && says_so(one));
    let runners: Vec<_> = runners.iter().filter(|one| one.is_alive && (one.kinds.is_none() || says_so(one))).collect();
    if !is_known && !ran_this_week(&page, name).await && !has_jobs(&page, name).await? {
        return Err(Failure::NotFound("kind: it is neither registered nor worked, and no job of it was found"));
    }
    let stats = format!("uniqueue stats --since 24h --kind {}", argument(name));
    let show = format!("uniqueue kind show {}", argument(name));
    let link = |path: &str, pairs: &[(&str, &str)]| page.link(&url(path, &[&[("kind", name)], pairs].concat()));
    let body = html! {
        (errors)
        h2 { "History" }
        (history)
        div.columns {
            @match &kind {
                Some(kind) => (taken(&page, kind)),
                None => section.panel {
                    h2 { "What inserts take from it" }
                    p.note { "The kind is not registered. An insert says everything itself." }
                }
            }
            section.panel {
                h2 { "Jobs" }
                @match failing {
                    Some(one) => p {
                        a href=(page.link(&format!("/failing#{}", row_id(&page, "kind", name)))) { "Failing" } ": "
                        (grouped(one.retryable)) " retryable, " (grouped(one.discarded)) " discarded."
                    },
                    None => p.note { "None waits for a retry, and none was discarded lately." },
                }
                p {
                    a href=(link("/jobs", &[("since", "all")])) { "Jobs of this kind" }
                    " · " a href=(link("/jobs", &[("state", "retryable"), ("state", "discarded"), ("since", "all")])) { "Failed ones" }
                    " · " a href=(link("/explain", &[])) { "Explain an insert" }
                    " · " a href=(link("/insert", &[])) { "Insert one" }
                }
                h2 { "Runners" }
                @if runners.is_empty() { p.note { "No live runner works this kind." } } @else {
                    p.names {
                        @for (at, one) in runners.iter().take(RUNNERS).enumerate() {
                            @if at > 0 { ", " }
                            a.inline href=(page.link(&format!("/runners#runner-{}", one.id))) { (Cell(&one.name)) }
                            @if let Some(version) = &one.version { " " span.note { (Cell(version)) } }
                            @if one.kinds.is_none() { " " span.note { "any kind of its queues" } }
                        }
                        @if runners.len() > RUNNERS { " and " (runners.len() - RUNNERS) " more" }
                    }
                }
                @if let Some(kind) = &kind {
                    h2 { "Registration" }
                    dl.facts {
                        dt { "Registered" } dd { (ago(kind.registered_at, now.max(kind.registered_at))) }
                        dt { "By" } dd { (Cell(&kind.registered_by)) }
                        dt { "Changed" } dd { (ago(kind.changed_at, now.max(kind.changed_at))) }
                    }
                }
            }
        }
        @if let Some(kind) = &kind {
            (policy_document("Unique policy", kind.unique_policy.as_ref(), name))
            (policy_document("Group policy", kind.group_policy.as_ref(), name))
        }
        (cli(&[stats.as_str(), show.as_str()][..if kind.is_some() { 2 } else { 1 }].join("\n")))
    };
    Ok(document(&page, Document { title: &format!("Kind {name}"), is_live: false, actions: html! {}, body }))
}

/// Whether anything of the kind was counted in the last week. `false` where the role may not read the history.
async fn ran_this_week(page: &Page, name: &str) -> bool {
    match page.admin().history(WEEK).step(HOUR).kind(name).timeout(LOOK_UP).await {
        Ok(history) => !history.total().is_empty(),
        Err(error) => error.is_statement_timeout(),
    }
}

/// Whether there is a job of the kind. Kinds have no index: a search that takes too long proves nothing, so it is `true`.
async fn has_jobs(page: &Page, name: &str) -> Result<bool, Failure> {
    let jobs = in_time(page.client().jobs(JobFilter::new().kind(name).limit(1)).timeout(LOOK_UP).await)?;
    Ok(jobs.is_none_or(|jobs| !jobs.is_empty()))
}

/// The options that an insert takes from a registered kind.
fn taken(page: &Page, kind: &KindRow) -> Markup {
    html! {
        section.panel {
            h2 { "What inserts take from it" }
            dl.facts {
                @for (name, value) in kind.taken() {
                    dt { (name) }
                    dd {
                        @if name == "queue" { a href=(page.link(&url("/queue", &[("queue", &value)]))) { (Cell(&value)) } }
                        @else { (Hostile(&value)) }
                    }
                }
            }
        }
    }
}

fn policy_document(title: &str, document: Option<&Value>, kind: &str) -> Markup {
    html! {
        @if let Some(document) = document {
            h2 { (title) }
            (json(&document.to_string(), POLICY, &format!("uniqueue kind show {} --json", argument(kind))))
        }
    }
}
