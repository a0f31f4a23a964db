//! The filter of a list of jobs: chips that are links, and the fields of a search. On a phone a label opens them.

use super::JobQuery;
use super::range::{Range, SINCE, written};
use crate::pages::prelude::*;

pub(super) fn filters(page: &Page, query: &JobQuery) -> Markup {
    let set = query.states.len() + query.words().count();
    html! {
        input.sr.sheet-switch type="checkbox" id="filters";
        label.button.sheet-label for="filters" { "Filters" @if set > 0 { " (" (set) ")" } }
        div.chips.sheet {
            (states(page, query))
            (times(page, query))
            (conditions(page, query))
            (search(page, query))
        }
    }
}

fn states(page: &Page, query: &JobQuery) -> Markup {
    html! {
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
    }
}

/// How far back the list goes, by which time, and in which order.
fn times(page: &Page, query: &JobQuery) -> Markup {
    let range = query.range;
    html! {
        div.row role="group" aria-label="Time" {
            @for (is_by_failure, word) in [(false, "inserted"), (true, "last failed")] {
                a.chip href=(page.link(&query.with(|other| other.range.is_by_failure = is_by_failure)))
                    aria-current=[(range.is_by_failure == is_by_failure).then_some("true")] { (word) }
            }
            span.between aria-hidden="true" {}
            @for (index, (_, label, _)) in SINCE.iter().enumerate() {
                @let link = query.with(|other| other.range = Range { since: index, from: None, to: None, ..range });
                a.chip href=(page.link(&link)) aria-current=[(index == range.since && !range.is_own()).then_some("true")] { (label) }
            }
            details.menu data-hold open[range.is_own()] {
                summary.chip aria-current=[range.is_own().then_some("true")] { "range…" }
                form.row method="get" action=(page.link("/jobs")) {
                    @for (name, value) in query.pairs() {
                        @if !["since", "from", "to", "after"].contains(&name) { input type="hidden" name=(name) value=(value); }
                    }
                    label { "from " input name="from" type="datetime-local" step="1" value=[range.from.map(written)]; }
                    label { "to " input name="to" type="datetime-local" step="1" value=[range.to.map(written)]; }
                    span.note { "UTC" }
                    button { "Show" }
                }
            }
            span.between aria-hidden="true" {}
            a.chip href=(page.link(&query.with(|other| other.is_oldest_first = !other.is_oldest_first)))
                aria-current=[query.is_oldest_first.then_some("true")] { "oldest first" }
        }
    }
}

/// The other conditions, each with a link that removes it.
fn conditions(page: &Page, query: &JobQuery) -> Markup {
    let remove = |name: &str, link: String, shown: Markup| {
        html! {
            a.chip.word href=(page.link(&link)) title={ "Remove the condition on " (name) } { (shown) span.sr { ": remove" } span aria-hidden="true" { "×" } }
        }
    };
    html! {
        @if query.words().next().is_some() || query.attempts.is_some() || query.range.is_own() {
            div.row role="group" aria-label="Conditions" {
                @for (name, value) in query.words() {
                    (remove(name, query.without(name), html! { (name) " = " span.mono { (Hostile(value)) } }))
                }
                @if let Some(attempts) = query.attempts {
                    (remove("attempts", query.with(|other| other.attempts = None), html! { "attempts ≥ " span.mono { (attempts) } }))
                }
                @for (name, end, is_start) in [("from", query.range.from, true), ("to", query.range.to, false)] {
                    @if let Some(end) = end {
                        @let link = query.with(|other| if is_start { other.range.from = None } else { other.range.to = None });
                        (remove(name, link, html! { (name) " " (at(end)) }))
                    }
                }
            }
        }
    }
}

fn search(page: &Page, query: &JobQuery) -> Markup {
    html! {
        form.row.search method="get" action=(page.link("/jobs")) {
            @for (name, value) in query.pairs() {
                @if !["kind", "queue", "group", "key", "args", "after"].contains(&name) { input type="hidden" name=(name) value=(value); }
            }
            input name="kind" value=[query.word("kind")] placeholder="kind" aria-label="Kind" list="kinds" size="16";
            input name="queue" value=[query.word("queue")] placeholder="queue" aria-label="Queue" list="queues" size="12";
            input name="group" value=[query.word("group")] placeholder="group" aria-label="Group" list="groups" size="12";
            input name="key" value=[query.word("key")] placeholder="unique key" aria-label="Unique key" size="18";
            @if page.app.redact.is_none() {
                input.mono name="args" value=[query.word("args")] placeholder="in args: text, to: ada@…, {\"user_id\": 42}"
                    aria-label="In args: text, a member and its text, or JSON" size="34";
            }
            button { "Filter" }
        }
    }
}
