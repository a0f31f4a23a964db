//! The navigation, and the keys that follow it.

use std::time::Duration;

use maud::{Markup, html};
use uniqueue::JobState;

use super::short_count;
use crate::page::Page;

/// The entries of the navigation: group, path, name, key.
const NAVIGATION: [(&str, &str, &str, &str); 17] = [
    ("", "/", "Overview", "o"),
    ("", "/history", "History", "h"),
    ("", "/doctor", "Doctor", "d"),
    ("", "/changes", "Changes", "c"),
    ("Jobs", "/jobs", "Jobs", "j"),
    ("Jobs", "/running", "Running", "r"),
    ("Jobs", "/runners", "Runners", "n"),
    ("Jobs", "/kinds", "Kinds", "t"),
    ("Jobs", "/failing", "Failing kinds", "f"),
    ("Jobs", "/periodic", "Periodic", "p"),
    ("Jobs", "/queues", "Queues", "q"),
    ("Jobs", "/groups", "Groups", "g"),
    ("Jobs", "/insert", "Insert", "i"),
    ("Unique keys", "/keys", "Keys", "k"),
    ("Unique keys", "/explain", "Explain", "e"),
    ("Unique keys", "/waiting", "Waiting inserts", "w"),
    ("Unique keys", "/duplicates", "Duplicates", "u"),
];

/// The name of the page at a path in the navigation.
pub(crate) fn name_of(path: &str) -> Option<&'static str> {
    NAVIGATION.iter().find(|(_, known, ..)| *known == path).map(|(_, _, name, _)| *name)
}

/// How old a sample may be whose numbers stand in the navigation. A page that is opened for them alone costs none.
const RECENT: Duration = Duration::from_secs(60);

/// The numbers beside entries of the navigation: jobs and findings that need a person. They come from a recent sample.
fn badge(page: &Page, path: &str) -> Option<(u64, &'static str)> {
    let seen = page.app.sampler.seen();
    let snapshot = seen.snapshot.filter(|one| seen.failure.is_none() && one.taken_at.elapsed() < RECENT)?;
    let failing = [JobState::Retryable, JobState::Discarded];
    let failed = failing.iter().filter_map(|state| snapshot.stats.jobs.get(state)).map(|count| count.counted());
    let (number, words) = match path {
        "/failing" => (failed.sum(), "failed jobs"),
        "/doctor" => (snapshot.doctor.diagnosis.as_ref()?.findings.len() as u64, "findings"),
        "/waiting" => (snapshot.waiting_inserts? as u64, "inserts that wait"),
        _ => return None,
    };
    (number > 0).then_some((number, words))
}

/// The pages, by groups.
pub(super) fn navigation(page: &Page) -> Markup {
    html! {
        nav aria-label="Pages" {
            @for entries in NAVIGATION.chunk_by(|one, other| one.0 == other.0) {
                div.group {
                    @if !entries[0].0.is_empty() { span.group-name { (entries[0].0) } }
                    @for (_, path, name, key) in entries {
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

/// The list of keys, which a script shows.
pub(super) fn keys() -> Markup {
    html! {
        dialog id="keys" aria-labelledby="keys-title" {
            h2 id="keys-title" { "Keys" }
            dl.keys {
                dt { kbd { "?" } } dd { "This list" }
                dt { kbd { "g" } " then a letter" } dd { "Go to a page" }
                @for (_, _, name, key) in NAVIGATION { dt { kbd { "g" } " " kbd { (key) } } dd { (name) } }
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
