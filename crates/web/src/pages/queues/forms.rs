//! The settings of a queue, a row each: what is set, the form that changes it, and the change.

use uniqueue::{Keep, QueueChanges, QueueSettings, Rate};

use crate::pages::prelude::*;

/// How long the form of a hold proposes.
pub(in crate::pages) const HOLD: Duration = Duration::from_secs(600);

/// Every setting. With the right to change it, a row opens its form.
pub(super) fn settings(page: &Page, settings: &QueueSettings, now: OffsetDateTime) -> Markup {
    let row = |label: &str, value: Markup, forms: Markup| {
        let line = html! { span.label { (label) } span.value { (value) } };
        html! {
            @if page.may(Right::Queues) {
                details.setting data-hold {
                    summary { (line) span.edit aria-hidden="true" { "Edit" } }
                    form.row method="post" action=(page.link("/queues/change")) {
                        input type="hidden" name="queue" value=(settings.name);
                        (forms)
                    }
                }
            } @else { div.setting { div.line { (line) } } }
        }
    };
    let at_once = |limit: Option<u32>, none: &str| html! { @match limit { Some(limit) => { (limit) " at once" } None => (none) } };
    html! {
        section.panel.settings-rows {
            h2 { "Settings" }
            (row("Fetches", fetches(settings, now), pausing(settings)))
            @if page.may(Right::Queues) {
                (row("Hold", html! { @match settings.held_until { Some(until) => (held(until, now)), None => "not held" } }, html! {
                    (length_fields("hold_for", "Hold for", HOLD)) (submit("verb", "hold", "Hold", ""))
                }))
            }
            (row("Limit", at_once(settings.limit, "none"), html! { (limit("Limit", settings.limit)) (submit("verb", "limit", "Set", "")) }))
            (row("Limit of each group", at_once(settings.group_limit, "none but the jobs' own"), html! {
                (limit("Limit of each group", settings.group_limit)) (submit("verb", "limit_groups", "Set", ""))
            }))
            (row("Rate", rate_in_words(settings.rate), html! {
                (rate("Rate", settings.rate)) (submit("verb", "rate", "Set", "")) @if settings.rate.is_some() { (without_fields("no_rate", "Remove")) }
            }))
            (row("Rate of each group", rate_in_words(settings.group_rate), html! {
                (rate("Rate of each group", settings.group_rate))
                (submit("verb", "rate_groups", "Set", ""))
                @if settings.group_rate.is_some() { (without_fields("no_group_rate", "Remove")) }
            }))
            (row("May wait", html! { @match settings.max_waiting { Some(limit) => { (grouped(u64::from(limit))) " available jobs" } None => "any number" } }, html! {
                (limit("Most available jobs", settings.max_waiting))
                (submit("verb", "max_waiting", "Set", ""))
                span.note { "Inserts beyond are refused." }
            }))
            (row("Turns", html! { @if settings.fair { "fair: groups take turns, and jobs without a group are one more" } @else { "groups take turns, and jobs without a group come by their time" } }, html! {
                @if settings.fair { (submit("verb", "not_fair", "End fair turns", "")) }
                @else { (submit("verb", "fair", "Take fair turns", "")) }
            }))
            @for (state, keep) in [("completed", settings.keep_completed), ("cancelled", settings.keep_cancelled), ("discarded", settings.keep_discarded)] {
                (row(&format!("Keeps {state}"), html! { (kept(keep)) }, html! {
                    input type="hidden" name="state" value=(state);
                    label { input name="days" type="number" min="0" max="36500" step="any" placeholder=(kept(keep)) aria-label={ "Keep " (state) ", days" } required; " days" }
                    (submit("verb", "keep", "Set", ""))
                    @if keep != Keep::AsRunnersSay { (without_fields("keep_default", "Default")) }
                }))
            }
        }
    }
}

/// Whether runners fetch from it, and who paused it, why and when.
fn fetches(settings: &QueueSettings, now: OffsetDateTime) -> Markup {
    html! {
        @match settings.paused_at {
            None => "runners fetch from it",
            Some(at) => {
                span.badge.warning { "paused" } " " (ago(at, now.max(at)))
                @if let Some(by) = &settings.paused_by { " by " b { (Hostile(by)) } }
                @if let Some(reason) = &settings.pause_reason { ": " (Hostile(reason)) }
            }
        }
    }
}

fn pausing(settings: &QueueSettings) -> Markup {
    html! {
        @if settings.paused_at.is_some() || settings.held_until.is_some() { (submit("verb", "resume", "Resume", "primary")) }
        @if settings.paused_at.is_none() {
            input name="reason" maxlength="300" placeholder="why" aria-label="Why the queue is paused" size="28";
            (submit("verb", "pause", "Pause", ""))
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

/// A button for which the other fields of its form need no value.
fn without_fields(verb: &str, label: &str) -> Markup {
    html! { button name="verb" value=(verb) formnovalidate { (label) } }
}

/// A rate in words.
pub(in crate::pages) fn rate_in_words(rate: Option<Rate>) -> Markup {
    html! {
        @match rate {
            // The burst is said in words.
            Some(rate) => { (rate.burst(rate.count)) span.note { " · up to " (grouped(u64::from(rate.burst))) " start at once" } }
            None => "any",
        }
    }
}

/// That a queue or a group is held, and for how much longer.
pub(in crate::pages) fn held(until: OffsetDateTime, now: OffsetDateTime) -> Markup {
    html! { span.badge.warning { "held" } " " span.note { "for " (countdown(until, now)) } }
}

fn kept(keep: Keep) -> String {
    match keep {
        Keep::AsRunnersSay => "default".to_owned(),
        Keep::Forever => "forever".to_owned(),
        Keep::For(length) => span(length),
    }
}

/// Pauses, holds, resumes or limits a queue, sets its rates, how many jobs may wait in it, how it treats its groups, or a
/// retention.
pub(crate) async fn change(page: Page, body: String) -> Result<Response, Failure> {
    let fields = Fields::read(&body);
    let name = fields.need("queue")?;
    let queue = page.client().queue(name);
    let verb = fields.need("verb")?;
    let changes = QueueChanges::new();
    let change = match verb {
        "pause" => fields.get("reason").map_or_else(|| queue.pause(), |reason| queue.pause_because(reason)),
        "resume" => queue.resume(),
        "hold" => queue.hold(fields.need_length("hold_for")?),
        _ => queue.set(match verb {
            "limit" => changes.limit(fields.parsed("limit")?),
            "limit_groups" => changes.group_limit(fields.parsed("limit")?),
            "rate" => changes.rate(Some(read_rate(&fields)?)),
            "no_rate" => changes.rate(None),
            "rate_groups" => changes.group_rate(Some(read_rate(&fields)?)),
            "no_group_rate" => changes.group_rate(None),
            "max_waiting" => changes.max_waiting(fields.parsed("limit")?),
            "fair" => changes.fair(true),
            "not_fair" => changes.fair(false),
            "keep" | "keep_default" => match (fields.need("state")?, keep(&fields, verb)?) {
                ("completed", keep) => changes.keep_completed(keep),
                ("cancelled", keep) => changes.keep_cancelled(keep),
                ("discarded", keep) => changes.keep_discarded(keep),
                (state, _) => {
                    return Err(Failure::Bad(format!("jobs of this state are not kept for a time: {state:?}")));
                }
            },
            other => return Err(Failure::Bad(format!("there is no such change: {other:?}"))),
        }),
    };
    by!(page, change).await.map_err(|error| match verb {
        // The limit of the statement may end the wait before the library does.
        "max_waiting" if error.is_retryable() => Failure::Bad(format!(
            "Nothing was changed. The first limit of available jobs, and removing the last one, wait for open transactions \
             that have inserted or changed jobs, and one of them stayed open. Try again when it has ended: {error}"
        )),
        _ => error.into(),
    })?;
    page.log(verb, name);
    page.app.sampler.refresh().await;
    Ok(page.go_to(&url("/queue", &[("queue", name)])))
}

/// A rate. Without a burst, as many as its count start at once.
fn read_rate(fields: &Fields) -> Result<Rate, Failure> {
    let rate = Rate::per(fields.need_parsed("count")?, fields.need_length("period")?);
    Ok(fields.parsed("burst")?.map_or(rate, |burst| rate.burst(burst)))
}

fn keep(fields: &Fields, verb: &str) -> Result<Keep, Failure> {
    match (verb, fields.parsed::<f64>("days")?) {
        ("keep", Some(days)) => Duration::try_from_secs_f64(days * 86_400.0)
            .map(Keep::For)
            .map_err(|_| Failure::Bad(format!("days is not valid: {days}"))),
        _ => Ok(Keep::AsRunnersSay),
    }
}
