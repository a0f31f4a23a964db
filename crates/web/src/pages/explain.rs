//! The outcome of an insert before it is made, and of a policy for the stored jobs.

use serde_json::value::RawValue;
use uniqueue::json::{indent_json, parse_json};
use uniqueue::{Explanation, InsertOutcome, NewJob, UniquePolicy};
use uniqueue_admin::{Backfill, BackfillReport, KindRow};

use super::jobs::SINCE;
use super::lab::{LAB, replay, would_have_met};
use crate::pages::prelude::*;

/// The policy that the form starts with, where the kind is not registered with another.
const POLICY: &str = "{\"keys\": [\"type\", \"args\"], \"states\": [\"available\", \"scheduled\", \"running\", \"retryable\"], \"on_conflict\": \"ignore\"}";

/// The choice of the policy lab that is a backfill. The others are times.
const QUEUED: &str = "queued";

/// The most bytes of HTML of the args that an update would make.
const ARGS: usize = 24_000;

/// The most bytes of what a key is made from.
pub(super) const MADE_FROM: usize = 1_000;

pub(crate) async fn show(page: Page, fields: Fields) -> Shown {
    let kind = fields.get("kind");
    let is_lab = fields.get("what") == Some("lab");
    let since = fields.get("since").unwrap_or("24h");
    let registered = match kind {
        Some(kind) => page.admin().kind(kind).timeout(LOOK_UP).await.map_err(|error| error.to_string()),
        None => Ok(None),
    };
    let answer = match (kind, &registered) {
        (Some(_), Err(problem)) => Some(Err(problem.clone())),
        // A link that names only the kind fills in the form.
        (Some(kind), Ok(registered)) if has_question(&fields) => Some(match is_lab {
            true => lab(&page, kind, since, registered.as_ref(), &fields).await,
            false => explain(&page, &fields).await,
        }),
        _ => None,
    };
    let of_kind =
        registered.ok().flatten().and_then(|kind| kind.unique_policy).map(|policy| indent_json(&policy.to_string()));
    let policy = fields.get("policy").or(of_kind.as_deref()).unwrap_or(POLICY);
    let body = html! {
        form.panel method="get" action=(page.link("/explain")) {
            div.fields {
                label.field { "Kind" input name="kind" value=[kind] required; }
                label.field { "Queue" input name="queue" value=[fields.get("queue")] placeholder="the kind's"; }
                label.field { "Try the policy on" select name="since" {
                    @for (word, label, length) in SINCE {
                        option value=(word) selected[word == since] {
                            @if length.is_some() { "jobs of the last " (label) } @else { "all jobs" }
                        }
                    }
                    option value=(QUEUED) selected[since == QUEUED] { "jobs in the policy's states now" }
                } }
                label.field.wide { "Args" textarea name="args" rows="4" spellcheck="false" { (fields.get("args").unwrap_or("{}")) } }
                label.field.wide { "Unique policy" textarea name="policy" rows="4" spellcheck="false" { (policy) } }
            }
            div.row {
                button.primary name="what" value="insert" { "Explain an insert" }
                button name="what" value="lab" { "Try the policy on this kind's jobs" }
                span.note { "Neither changes anything." }
            }
        }
        // No command replays the inserts of the past.
        @if let Some(kind) = kind.filter(|_| !is_lab || since == QUEUED) { (cli(&command(kind, is_lab, &fields))) }
        @match answer {
            Some(Ok(answer)) => (answer),
            Some(Err(why)) => p.callout.critical role="alert" { (Hostile(&why)) },
            None => p.empty {
                "Explain shows the key of a job, the job that holds it, and what frees it. The policy lab goes through the "
                "inserts of the last hours or days, and shows which of them would have met a job with the same key."
            },
        }
    };
    document(&page, Document { title: "Explain", is_live: false, actions: html! {}, body })
}

/// Whether the form was sent.
fn has_question(fields: &Fields) -> bool {
    ["what", "args", "policy", "queue", "since"].iter().any(|name| fields.get(name).is_some())
}

/// The command that gives the same answer.
fn command(kind: &str, is_lab: bool, fields: &Fields) -> String {
    let option = |name: &str, field: &str| {
        fields.get(field).map(|value| format!(" --{name} {}", quoted(value))).unwrap_or_default()
    };
    let policy = option("policy", "policy");
    if is_lab {
        return format!("uniqueue unique backfill --kind {}{policy} --rekey --dry-run", quoted(kind));
    }
    let options = [option("args", "args"), option("queue", "queue"), policy].concat();
    format!("uniqueue unique explain{options} {}", argument(kind))
}

/// The job of a form. `null` as its policy gives the policy of the kind up.
pub(super) fn job(fields: &Fields) -> Result<NewJob, String> {
    let kind = fields.get("kind").ok_or("A kind is needed.")?;
    let text = fields.get("args").unwrap_or("{}");
    let args: Box<RawValue> = serde_json::from_str(text).map_err(|error| format!("Args are not JSON: {error}"))?;
    let numbers = || Ok((fields.parsed("priority")?, fields.parsed("max_attempts")?, fields.parsed::<u32>("minutes")?));
    let (priority, max_attempts, minutes) = numbers().map_err(|failure: Failure| failure.words())?;
    let job = NewJob::from_json(kind, args)
        .given(fields.get("queue"), NewJob::queue)
        .given(priority, NewJob::priority)
        .given(max_attempts, NewJob::max_attempts)
        .given(minutes, |job, minutes| job.scheduled_in(Duration::from_secs(60) * minutes));
    match fields.get("policy") {
        None => Ok(job),
        Some(text) if text.trim() == "null" => Ok(job.not_unique()),
        Some(text) => Ok(job.unique(text.parse::<UniquePolicy>().map_err(|error| error.to_string())?)),
    }
}

/// The canonical text of a job's unique key, if the registered policy of its kind makes this key.
pub(super) async fn made_from(page: &Page, job: &JobRow) -> Option<String> {
    let key = job.unique_key.as_deref().filter(|_| page.app.redact.is_none())?;
    let same = NewJob::from_json(job.kind.as_str(), job.args.clone()).queue(job.queue.as_str());
    let same = job.meta.iter().fold(same, |same, (name, value)| same.meta(name, value.clone()));
    let same = page.client().fill_in(same).timeout(LOOK_UP).await.ok()?;
    let explanation = page.client().explain(same).timeout(LOOK_UP).await.ok()?;
    explanation.canonical.filter(|_| explanation.unique_key.as_deref() == Some(key))
}

async fn explain(page: &Page, fields: &Fields) -> Result<Markup, String> {
    let job = job(fields)?;
    parse_json(fields.get("args").unwrap_or("{}")).map_err(|error| error.to_string())?;
    let job = page.client().fill_in(job).timeout(LOOK_UP).await.map_err(|error| error.to_string())?;
    let explanation = page.client().explain(job).timeout(LOOK_UP).await.map_err(|error| error.to_string())?;
    Ok(explained(page, &explanation))
}

pub(super) fn explained(page: &Page, explanation: &Explanation) -> Markup {
    html! {
        section.panel aria-live="polite" {
            p.big {
                @match (explanation.outcome, &explanation.holder) {
                    (InsertOutcome::Inserted, None) if explanation.unique_key.is_none() => {
                        b { "A new job." } " It is not unique: neither its kind nor this form says how."
                    }
                    (InsertOutcome::Inserted, None) => { b { "A new job." } " The key is free." }
                    (InsertOutcome::Inserted, Some(holder)) if explanation.replaced.is_some() => {
                        b { "A new job." } " It takes the place of the holder"
                        @if holder.holder_state == JobState::Running { ", which runs and would be cancelled" }
                        "."
                    }
                    (InsertOutcome::Inserted, Some(_)) => {
                        b { "A new job." } " The holder is full, and gives up its claim."
                    }
                    (InsertOutcome::Updated, _) => { b { "An update." } " Nothing would be inserted, and the holder would be changed." }
                    (InsertOutcome::Covered, _) => {
                        b { "Covered." } " Nothing would be inserted, and the holder starts after the insert has committed."
                    }
                    (InsertOutcome::Duplicate, _) => { b { "A duplicate." } " Nothing would be inserted." }
                    (InsertOutcome::Rejected, _) => { b { "Rejected." } " Nothing would be inserted, and the insert would fail." }
                }
            }
            dl.facts {
                @if let Some(key) = &explanation.unique_key { dt { "Key" } dd { (key_link(page, key)) } }
                @if let Some(text) = &explanation.canonical { dt { "Made from" } dd.mono { (Hostile(text)) } }
                @if explanation.unique_key.is_some() { dt { "Would claim in" } dd { (explanation.would_claim_in) } }
                @if let Some(holder) = &explanation.holder {
                    dt { "Holder" } dd { (job_link(page, holder.holder)) " " (state(holder.holder_state)) }
                    dt { "Age" } dd { (span(holder.holder_age)) }
                    dt { "Claims in" } dd { (holder.claims_in) }
                    dt { "Free" } dd { (holder.frees()) }
                }
                @if let Some(due) = explanation.new_scheduled_at { dt { "New due time" } dd { (at(due)) } }
            }
            @if let Some(args) = &explanation.new_args { h2 { "New args" } (json(args.get(), ARGS, "uniqueue unique explain")) }
        }
    }
}

async fn lab(
    page: &Page,
    kind: &str,
    since: &str,
    registered: Option<&KindRow>,
    fields: &Fields,
) -> Result<Markup, String> {
    let policy: UniquePolicy = match (fields.get("policy"), registered) {
        (Some(text), _) => text.parse::<UniquePolicy>().map_err(|error| error.to_string())?,
        (None, Some(kind)) => kind
            .policy()
            .map_err(|error| error.to_string())?
            .ok_or("A policy is needed: the kind is registered without one.")?,
        (None, None) => return Err("A policy is needed.".to_owned()),
    };
    if since != QUEUED {
        let since = SINCE.iter().find(|(word, ..)| *word == since).unwrap_or(&SINCE[1]);
        return replay(page, kind, &policy, since.2).await;
    }
    let dry_run = Backfill::keys_of(page.client(), kind, policy).overwrite().dry_run();
    match tokio::time::timeout(LAB, async { dry_run.await }).await {
        Ok(Ok(report)) => Ok(tried(page, &report)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!(
            "The jobs of this kind are too many for {} s. Choose those of a time, or go through all of them with the command: uniqueue \
             unique backfill --dry-run",
            LAB.as_secs()
        )),
    }
}

fn tried(page: &Page, report: &BackfillReport) -> Markup {
    html! {
        section.panel aria-live="polite" {
            (would_have_met(report.collided, report.jobs))
            dl.facts {
                dt { "Would claim a key" } dd { (grouped(report.claimed + report.unchanged)) }
                dt { "Key without a claim now" } dd { (grouped(report.unclaimed)) }
                @if report.other_key > 0 { dt { "Have another key" } dd { (grouped(report.other_key)) } }
                @if report.unfit > 0 { dt { "No key can be made" } dd { (grouped(report.unfit)) } }
                @if report.contested > 0 { dt { "Locked, not looked at" } dd { (grouped(report.contested)) } }
            }
            @if !report.collisions.is_empty() {
                div.scroll { table {
                    thead { tr { th { "Job" } th { "State" } th { "Same as" } th { "Key" } } }
                    tbody { @for one in &report.collisions { tr {
                        td.nowrap { (job_link(page, one.job)) }
                        td.nowrap { (state(one.state)) }
                        td.nowrap { (job_link(page, one.holder)) }
                        td.clip.mono { (Hostile(&one.unique_key)) }
                    } } }
                } }
            }
            @for job in report.unfit_jobs.iter().take(10) { p.note { (job_link(page, job.job)) ": " (Hostile(&job.problem)) } }
            p.note { "Jobs whose state the policy covers were looked at. Nothing was changed." }
        }
    }
}
