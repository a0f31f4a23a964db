//! The forms that change a queue.

use std::time::Duration;

use maud::{Markup, html};
use uniqueue::{Keep, QueueSettings, Rate};

use super::kept;
use crate::html::{length_fields, submit};
use crate::page::Page;

/// How long the form of a hold proposes.
pub(in crate::pages) const HOLD: Duration = Duration::from_secs(600);

/// Every form of a queue. Each sends the name of the queue and a verb.
pub(super) fn forms(page: &Page, settings: &QueueSettings) -> Markup {
    let form = |label: &str, body: Markup| {
        html! {
            form.setting method="post" action=(page.link("/queues/change")) {
                span.label { (label) }
                div.row {
                    input type="hidden" name="queue" value=(settings.name);
                    (body)
                }
            }
        }
    };
    let is_stopped = settings.paused_at.is_some() || settings.held_until.is_some();
    html! {
        (form("Fetches", html! {
            @if is_stopped { (submit("verb", "resume", "Resume", "primary")) }
            @if settings.paused_at.is_none() { (submit("verb", "pause", "Pause", "")) }
        }))
        (form("Hold for", html! { (length_fields("hold_for", "Hold for", HOLD)) (submit("verb", "hold", "Hold", "")) }))
        (form("Limit", html! { (limit("Limit", settings.limit)) (submit("verb", "limit", "Set", "")) }))
        (form("Limit of each group", html! {
            (limit("Limit of each group", settings.group_limit))
            (submit("verb", "limit_groups", "Set", ""))
        }))
        (form("Rate", html! {
            (rate("Rate", settings.rate))
            (submit("verb", "rate", "Set", ""))
            (no_rate(settings.rate, "no_rate"))
        }))
        (form("Rate of each group", html! {
            (rate("Rate of each group", settings.group_rate))
            (submit("verb", "rate_groups", "Set", ""))
            (no_rate(settings.group_rate, "no_group_rate"))
        }))
        (form("Most available jobs", html! {
            (limit("Most available jobs", settings.max_waiting))
            (submit("verb", "max_waiting", "Set", ""))
            span.note { "Inserts beyond are refused." }
        }))
        (form("Turns of groups", html! {
            @if settings.fair { (submit("verb", "not_fair", "End fair turns", "")) }
            @else { (submit("verb", "fair", "Take fair turns", "")) }
        }))
        @for (state, keep) in [("completed", settings.keep_completed), ("cancelled", settings.keep_cancelled), ("discarded", settings.keep_discarded)] {
            (form(&format!("Keep {state}"), html! {
                input type="hidden" name="state" value=(state);
                label { input name="days" type="number" min="0" max="36500" step="any" placeholder=(kept(keep)) aria-label={ "Keep " (state) ", days" } required; " days" }
                (submit("verb", "keep", "Set", ""))
                @if keep != Keep::AsRunnersSay { (without_fields("keep_default", "Default")) }
            }))
        }
    }
}

/// A limit. An empty field means none.
fn limit(label: &str, limit: Option<u32>) -> Markup {
    html! { input name="limit" type="number" min="1" max="2147483647" value=[limit] placeholder="none" aria-label=(label); }
}

/// The count, period and burst of a rate. An empty burst means the count.
fn rate(label: &str, rate: Option<Rate>) -> Markup {
    let burst = rate.filter(|rate| rate.burst != rate.count).map(|rate| rate.burst);
    html! {
        label {
            input name="count" type="number" min="1" max="1000000" value=[rate.map(|rate| rate.count)] placeholder="any" aria-label={ (label) ": count" } required;
            " in"
        }
        span.row { (length_fields("period", &format!("{label}: period"), rate.map_or(Duration::from_secs(1), |rate| rate.period))) }
        label { "at once " input name="burst" type="number" min="1" max="1000000" value=[burst] placeholder="all"; }
    }
}

/// Removes a rate.
fn no_rate(rate: Option<Rate>, verb: &str) -> Markup {
    html! { @if rate.is_some() { (without_fields(verb, "Remove")) } }
}

/// A button for which the other fields of its form need no value.
fn without_fields(verb: &str, label: &str) -> Markup {
    html! { button name="verb" value=(verb) formnovalidate { (label) } }
}
