//! The frame of every page.

use axum::http::StatusCode;
use axum::response::Html;
use maud::{DOCTYPE, Markup, html};

use super::navigation::{keys, name_of, navigation};
use super::{Cell, Hostile, ago, plain};
use crate::app::Scope;
use crate::assets;
use crate::fields::Fields;
use crate::page::{Page, THEMES, place_path};
use crate::sampler::Seen;

/// The parts that differ from page to page.
pub(crate) struct Document<'a> {
    pub(crate) title: &'a str,
    /// Whether an open page is read again with each sample.
    pub(crate) is_live: bool,
    /// Beside the title: buttons and links.
    pub(crate) actions: Markup,
    pub(crate) body: Markup,
}

/// A page, and its status: 503 where it shows old data.
pub(crate) type Shown = (StatusCode, Html<String>);

/// A whole page. One that was made from a sample says when the sample is old, or why there is none.
pub(crate) fn document(page: &Page, document: Document<'_>) -> Shown {
    let Document { title, is_live, actions, body } = document;
    let asset = |name| page.link(&assets::path(name));
    let old = page.seen.get().filter(|seen| seen.problem().is_some());
    let theme = Some(page.theme).filter(|theme| *theme != THEMES[0]);
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
                (keys())
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
    let list = if name_of(page.path()).is_some() { page.path() } else { "/" };
    let to = |place: &str, path: &str| match (format!("{}{place}", page.base()), path) {
        (base, "/") if !base.is_empty() => base,
        (base, path) => format!("{base}{path}"),
    };
    html! {
        details.places {
            summary { @match at { Some(at) => { "Place " b { (Cell(names[at].as_str())) } } None => b { "All places" } } }
            ul {
                li { a href=(to("", list)) aria-current=[at.is_none().then_some("true")] { "All places" } }
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

fn settings(page: &Page) -> Markup {
    html! {
        form.settings method="post" action=(page.link("/settings")) {
            input type="hidden" name="back" value=(page.here);
            div.switch role="group" aria-label="Colours" {
                @for theme in THEMES {
                    button name="theme" value=(theme) aria-pressed=(page.theme == theme) { (theme) }
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
