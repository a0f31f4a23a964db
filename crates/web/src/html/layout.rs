//! The frame of every page.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Html;
use maud::{DOCTYPE, Markup, html};
use uniqueue::JobState;

use super::{Cell, Hostile, ago, plain, short_count};
use crate::app::Scope;
use crate::assets;
use crate::fields::Fields;
use crate::page::{Page, Theme, place_path};
use crate::snapshot::Seen;

/// The parts that differ from page to page.
pub(crate) struct Document<'a> {
    pub(crate) title: &'a str,
    /// Whether an open page is read again with each sample.
    pub(crate) is_live: bool,
    /// Beside the title: buttons and links.
    pub(crate) actions: Markup,
    pub(crate) body: Markup,
}

/// An entry of the navigation: path, name, key.
type Entry = (&'static str, &'static str, &'static str);

/// The navigation, by groups.
const NAVIGATION: &[(&str, &[Entry])] = &[
    (
        "",
        &[
            ("/", "Overview", "o"),
            ("/history", "History", "h"),
            ("/doctor", "Doctor", "d"),
            ("/changes", "Changes", "c"),
        ],
    ),
    (
        "Jobs",
        &[
            ("/jobs", "Jobs", "j"),
            ("/running", "Running", "r"),
            ("/runners", "Runners", "n"),
            ("/kinds", "Kinds", "t"),
            ("/failing", "Failing kinds", "f"),
            ("/periodic", "Periodic", "p"),
            ("/queues", "Queues", "q"),
            ("/groups", "Groups", "g"),
            ("/insert", "Insert", "i"),
        ],
    ),
    (
        "Unique keys",
        &[
            ("/keys", "Keys", "k"),
            ("/explain", "Explain", "e"),
            ("/waiting", "Waiting inserts", "w"),
            ("/duplicates", "Duplicates", "u"),
        ],
    ),
];

/// The pages that there are over all places.
const OVER_PLACES: [&str; 7] = ["/", "/history", "/doctor", "/jobs", "/running", "/runners", "/queues"];

fn entries() -> impl Iterator<Item = &'static Entry> {
    NAVIGATION.iter().flat_map(|(_, entries)| *entries)
}

/// The navigation of this page, by groups.
fn navigation_of(page: &Page) -> impl Iterator<Item = (&'static str, Vec<&'static Entry>)> {
    let is_over = page.app.all_places().is_some();
    let shown = move |entry: &&Entry| !is_over || OVER_PLACES.contains(&entry.0);
    let groups =
        NAVIGATION.iter().map(move |(group, entries)| (*group, entries.iter().filter(shown).collect::<Vec<_>>()));
    groups.filter(|(_, entries)| !entries.is_empty())
}

/// A page, and its status: 503 where it shows old data.
pub(crate) type Shown = (StatusCode, Html<String>);

/// A whole page. One that was made from a sample says when the sample is old, or why there is none.
pub(crate) fn document(page: &Page, document: Document<'_>) -> Shown {
    let Document { title, is_live, actions, body } = document;
    let asset = |name| page.link(&assets::path(name));
    let old = page.seen.get().filter(|seen| seen.problem().is_some());
    let theme = (page.theme != Theme::System).then(|| page.theme.as_str());
    let html = html! {
        (DOCTYPE)
        html lang="en" data-theme=[theme] data-time=(if page.is_local_time { "local" } else { "utc" }) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (plain(title)) " · uniqueue" }
                link rel="icon" type="image/svg+xml" href=(asset("icon.svg"));
                link rel="stylesheet" href=(asset("app.css"));
                script type="module" src=(asset("app.js")) {}
            }
            body data-live[is_live] {
                a.skip href="#main" { "Skip to the content" }
                header.side {
                    a.brand href=(page.link("/")) { img src=(asset("icon.svg")) alt="" width="18" height="18"; "uniqueue" }
                    (switcher(page))
                    (search(page))
                    (navigation(page))
                    (settings(page))
                }
                main id="main" tabindex="-1" {
                    div.head {
                        h1 { (Hostile(title)) }
                        div.actions { (actions) }
                        @if is_live {
                            @let (class, word) = if old.is_some() { ("live off", "old data") } else { ("live", "live") };
                            span class=(class) id="live" data-keep data-script title="This page follows the queue" { (word) }
                        }
                    }
                    @if let Some(seen) = old { (away(seen)) }
                    (body)
                }
                (keys(page))
                @for sort in ["names", "kinds", "queues", "groups"] { datalist id=(sort) {} }
            }
        }
    };
    let status = if old.is_some() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (status, Html(html.into_string()))
}

/// Says why there is no new sample, and how old the numbers of the page are.
fn away(seen: &Seen) -> Markup {
    html! {
        p.callout.critical role="alert" data-old {
            b { "The queue cannot be read now" } @if let Some(problem) = seen.problem() { ": " (Hostile(problem)) } ". "
            @match &seen.snapshot {
                Some(snapshot) => { "What stands here was read " (ago(snapshot.stats.asked_at, snapshot.now())) "." }
                None => "This page fills when it can.",
            }
        }
    }
}

/// The places to choose from. The choice keeps the page, where it is a list.
fn switcher(page: &Page) -> Markup {
    let (names, at) = match &page.app.scope {
        Scope::One => return html! {},
        Scope::Place { names, at } => (names, Some(*at)),
        Scope::All(all) => (&all.names, None),
    };
    let entry = entries().find(|(path, ..)| *path == page.path());
    let list = entry.map_or("/", |(path, ..)| *path);
    let over = entry.filter(|(path, ..)| OVER_PLACES.contains(path)).map_or("/", |(path, ..)| *path);
    let to = |place: &str, path: &str| match (format!("{}{place}", page.base()), path) {
        (base, "/") if !base.is_empty() => base,
        (base, path) => format!("{base}{path}"),
    };
    html! {
        details.places {
            summary { @match at { Some(at) => { "Place " b { (Cell(names[at].as_str())) } } None => b { "All places" } } }
            ul {
                li { a href=(to("", over)) aria-current=[at.is_none().then_some("true")] { "All places" } }
                @for (index, name) in names.iter().enumerate() {
                    li { a href=(to(&place_path(name), list)) aria-current=[(at == Some(index)).then_some("true")] { (Cell(name.as_str())) } }
                }
            }
        }
    }
}

/// The search over everything. A script fills its list of proposals.
fn search(page: &Page) -> Markup {
    let typed =
        (page.path() == "/search").then(|| Fields::read(page.here.split_once('?').map_or("", |(_, query)| query)));
    html! {
        form.find method="get" action=(page.link("/search")) role="search" data-suggest=(page.link("/suggest")) {
            input type="search" name="q" value=[typed.as_ref().and_then(|fields| fields.get("q"))] list="names" autocomplete="off"
                placeholder="Search" aria-label="Search for an id, a name, a key, or text in args" data-search;
        }
    }
}

/// How old a sample may be whose numbers stand in the navigation. A page that is opened for them alone costs none.
const RECENT: Duration = Duration::from_secs(60);

/// The numbers beside entries of the navigation: jobs and findings that need a person. They come from a recent sample.
fn badge(page: &Page, path: &str) -> Option<(u64, &'static str)> {
    let seen = page.app.sampler.seen();
    let snapshot = seen.snapshot.filter(|one| seen.failure.is_none() && one.taken_at.elapsed() < RECENT)?;
    let failing = [JobState::Retryable, JobState::Discarded];
    let number = match path {
        "/failing" => {
            failing.iter().filter_map(|state| snapshot.stats.jobs.get(state)).map(|count| count.counted()).sum()
        }
        "/doctor" => snapshot.doctor.diagnosis.as_ref()?.findings.len() as u64,
        "/waiting" => snapshot.waiting_inserts? as u64,
        _ => 0,
    };
    let words = match path {
        "/failing" => "failed jobs",
        "/doctor" => "findings",
        _ => "inserts that wait",
    };
    (number > 0).then_some((number, words))
}

fn navigation(page: &Page) -> Markup {
    html! {
        nav aria-label="Pages" {
            @for (group, entries) in navigation_of(page) {
                div.group {
                    @if !group.is_empty() { span.group-name { (group) } }
                    @for (path, name, key) in entries {
                        @let is_here = page.path() == *path || *path != "/" && page.path().starts_with(&format!("{path}/"))
                            || path.strip_suffix('s') == Some(page.path());
                        a href=(page.link(path)) aria-current=[is_here.then_some("page")] data-go=(key) {
                            span { (name) }
                            @if let Some((number, words)) = badge(page, path) { span.count title=(words) { (short_count(number)) } }
                        }
                    }
                }
            }
        }
    }
}

fn settings(page: &Page) -> Markup {
    html! {
        form.settings method="post" action=(page.link("/settings")) {
            input type="hidden" name="back" value=(page.here);
            div.switch role="group" aria-label="Colours" {
                @for theme in Theme::ALL {
                    button name="theme" value=(theme.as_str()) aria-pressed=(page.theme == theme) { (theme.as_str()) }
                }
            }
            div.switch role="group" aria-label="Time zone" {
                button name="time" value="utc" aria-pressed=(!page.is_local_time) { "UTC" }
                button name="time" value="local" aria-pressed=(page.is_local_time) data-script { "local" }
            }
            button.keys type="button" data-keys hidden { "Keys " kbd { "?" } }
        }
    }
}

/// The list of keys, which a script shows.
fn keys(page: &Page) -> Markup {
    html! {
        dialog id="keys" aria-labelledby="keys-title" {
            h2 id="keys-title" { "Keys" }
            dl.keys {
                dt { kbd { "?" } } dd { "This list" }
                dt { kbd { "g" } " then a letter" } dd { "Go to a page" }
                @for (_, entries) in navigation_of(page) {
                    @for (_, name, key) in entries { dt { kbd { "g" } " " kbd { (key) } } dd { (name) } }
                }
                dt { kbd { "/" } } dd { "Search everything" }
                dt { kbd { "j" } " " kbd { "k" } } dd { "Next and previous row" }
                dt { kbd { "Enter" } } dd { "Open the row" }
                dt { kbd { "x" } } dd { "Tick the row" }
                dt { kbd { "r" } } dd { "Read the page again" }
                dt { kbd { "Esc" } } dd { "Close" }
            }
            form method="dialog" { button { "Close" } }
        }
    }
}
