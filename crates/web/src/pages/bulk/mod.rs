//! Plans of changes to many jobs: making, confirming, watching and stopping them.

use std::future::IntoFuture;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::http::header;
use uniqueue::StateSet;
use uniqueue_admin::JobVerb;
use uuid::Uuid;

use super::jobs::{JobQuery, check_args};
use crate::bulk::{Plan, Run, Stage};
use crate::pages::prelude::*;

/// A plan counts no further than this.
const COUNT_UP_TO: u32 = 100_000;

/// How many jobs a plan shows.
const SAMPLES: u32 = 10;

/// Makes a plan for the ticked jobs, or for a whole filter.
pub(crate) async fn plan(page: Page, body: String) -> Result<Response, Failure> {
    let fields = Fields::read(&body);
    let word = fields.need("verb")?;
    let verb = JobVerb::named(word).ok_or_else(|| Failure::Bad(format!("there is no such change: {word:?}")))?;
    check(&page, verb)?;
    let client = page.client();
    let cut_off = client.database_time().timeout(LOOK_UP).await?;
    let query = JobQuery::read(&fields)?;
    let ids = fields.ids("id")?;
    let (filter, words) = match fields.get("whole") {
        None if ids.is_empty() => {
            return Err(Failure::Bad("No job is ticked. Tick some, or choose all jobs of the filter.".to_owned()));
        }
        None => (JobFilter::new().ids(&ids), format!("{} ticked {}", ids.len(), jobs_word(ids.len() as u64))),
        Some(whole) => {
            check_args(&page, &query)?;
            match (query.filter(cut_off), query.command()) {
                (filter, words) if whole == "but" && !ids.is_empty() => {
                    let except: String = ids.iter().map(|id| format!(" --except {id}")).collect();
                    (filter.except_ids(&ids), words + &except)
                }
                whole => whole,
            }
        }
    };
    // The cut-off is no later than the end of the filter's own range.
    let before = query.range.inserted_before(cut_off);
    let states = meant(&query, fields.get("whole").is_some(), verb);
    if states.is_empty() {
        return Err(Failure::Bad(format!("Only {} can be {}.", verb.words().changes, verb.words().past)));
    }
    let filter = filter.created_before(before).states(states);
    // A plan is made also where the jobs cannot be counted in time. It is then confirmed by typing.
    let (count, samples) = tokio::join!(
        client.count_jobs(filter.clone(), COUNT_UP_TO).timeout(LOOK_UP).into_future(),
        client.jobs(filter.clone().limit(SAMPLES)).timeout(LOOK_UP).into_future(),
    );
    let (count, samples) = (in_time(count)?, in_time(samples)?);
    let samples = samples.map(|samples| samples.into_iter().map(|job| page.app.redacted(job)).collect());
    let id = page.app.plans.add(Plan {
        id: Uuid::now_v7(),
        user: page.actor(),
        verb,
        filter,
        words,
        back: query.url(),
        count,
        cut_off,
        samples,
        made_at: Instant::now(),
        run: Mutex::default(),
        stop: page.app.stopped().child_token(),
    });
    Ok(page.go_to(&format!("/bulk/{id}")))
}

/// The states of the jobs that are counted and changed.
fn meant(query: &JobQuery, is_whole: bool, verb: JobVerb) -> StateSet {
    let given = match (is_whole, query.states.is_empty()) {
        (true, false) => StateSet::of(&query.states),
        (true, true) => verb.default_states(),
        _ => StateSet::of(&JobState::ALL),
    };
    given.intersection(verb.states())
}

/// Deleting needs a right of its own.
fn check(page: &Page, verb: JobVerb) -> Result<(), Failure> {
    if verb == JobVerb::Delete && !page.may(Right::Delete) { Err(Failure::Forbidden) } else { Ok(()) }
}

fn find(page: &Page, path: &IdPath<Uuid>) -> Result<Arc<Plan>, Failure> {
    page.app.plans.find(path.id, page.actor().as_deref()).ok_or(Failure::NotFound("plan: plans are kept for an hour"))
}

pub(crate) async fn show(page: Page, Path(path): Path<IdPath<Uuid>>) -> Result<Response, Failure> {
    let plan = find(&page, &path)?;
    let run = plan.progress();
    let body = match &run.stage {
        Stage::Planned => planned(&page, &plan),
        _ => started(&page, &plan, &run),
    };
    let title = format!("{} jobs", capitalized(plan.verb.words().name));
    let page = document(&page, Document { title: &title, is_live: false, actions: html! {}, body });
    // A running plan is read again every second, with or without scripts.
    Ok(match run.stage {
        Stage::Running => ([(header::REFRESH, "1")], page).into_response(),
        _ => page.into_response(),
    })
}

fn planned(page: &Page, plan: &Plan) -> Markup {
    let is_empty = plan.count.is_some_and(|count| count.counted() == 0);
    let verb = plan.verb.words().name;
    html! {
        section.panel {
            p.big { (sentence(plan)) }
            p.note { "Only " (plan.verb.words().changes) " are " (plan.verb.words().past) ". " @if let Some(effect) = effect(plan.verb) { (effect) } }
            @if plan.count.is_none() { p.callout.warning { "Their count is not known: it would take longer than " (LOOK_UP.as_secs()) " s." } }
            dl.facts {
                dt { "Which" } dd.mono { (Hostile(&plan.words)) }
                dt { "Cut-off" } dd { "jobs inserted before " (at(plan.cut_off)) " UTC; later ones are not meant" }
            }
            @if is_empty { p.empty { "No job is meant. " a.inline href=(page.link(&plan.back)) { "Back to the jobs" } } }
            @else {
                form.row method="post" action=(page.link(&format!("/bulk/{}/run", plan.id))) {
                    @if let Some(text) = plan.confirmation() {
                        label { "Type " code { (text) } " to confirm " input name="confirm" autocomplete="off" required pattern=(text) size="20"; }
                    }
                    button.(if matches!(plan.verb, JobVerb::Delete | JobVerb::Discard) { "danger" } else { "primary" }) {
                        (capitalized(verb)) " " @match plan.count { Some(jobs) => { (count(jobs)) " " (jobs_word(jobs.counted())) } None => "all jobs" }
                    }
                    a.button href=(page.link(&plan.back)) { "Do nothing" }
                }
            }
        }
        @match &plan.samples {
            None => p.note { "The last of them could not be read within " (LOOK_UP.as_secs()) " s." },
            Some(samples) if samples.is_empty() => {}
            Some(samples) => section { h2.above { @if plan.count.is_some_and(|count| count.counted() == samples.len() as u64) { "The jobs" } @else { "The last " (samples.len()) " of them" } } (job_rows(page, samples, plan.cut_off)) },
        }
    }
}

/// The plan in a sentence.
fn sentence(plan: &Plan) -> Markup {
    let done = plan.verb.words().past;
    html! {
        @match plan.count {
            Some(jobs) => { b.number { (count(jobs)) } " " (jobs_word(jobs.counted())) " will be " b { (done) } "." }
            None => { "All jobs of the filter will be " b { (done) } "." }
        }
    }
}

/// The side effect of a change, if it has one.
fn effect(verb: JobVerb) -> Option<&'static str> {
    match verb {
        JobVerb::Retry => Some("A job whose key another job holds goes on without its claim, or as its policy says."),
        JobVerb::Cancel | JobVerb::Discard => Some("Running jobs are stopped, and their results are dropped."),
        JobVerb::Delete => Some("They are gone for good, with their claims."),
        _ => None,
    }
}

fn jobs_word(count: u64) -> &'static str {
    if count == 1 { "job" } else { "jobs" }
}

/// Runs a plan that is confirmed.
pub(crate) async fn run(page: Page, Path(path): Path<IdPath<Uuid>>, body: String) -> Result<Response, Failure> {
    let plan = find(&page, &path)?;
    check(&page, plan.verb)?;
    let fields = Fields::read(&body);
    if let Some(text) = plan.confirmation()
        && fields.get("confirm").map(str::trim) != Some(text.as_str())
    {
        return Err(Failure::Bad(format!("Type {text:?} to confirm.")));
    }
    if plan.start(page.client().clone()) {
        page.log(plan.verb.words().name, &plan.words);
    }
    Ok(page.go_to(&format!("/bulk/{}", plan.id)))
}

/// Stops a plan that runs.
pub(crate) async fn stop(page: Page, Path(path): Path<IdPath<Uuid>>) -> Result<Response, Failure> {
    let plan = find(&page, &path)?;
    plan.stop.cancel();
    Ok(page.go_to(&format!("/bulk/{}", plan.id)))
}

fn capitalized(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

pub(super) fn started(page: &Page, plan: &Plan, run: &Run) -> Markup {
    html! {
        section.panel {
            p.big role="status" {
                @match &run.stage {
                    Stage::Running => "Running.",
                    Stage::Stopped => "Stopped. The batch that was under way may have been made.",
                    Stage::Failed(why) => { "Failed: " (Hostile(why)) " The batches before were made." }
                    _ => "Done.",
                }
            }
            dl.facts {
                dt { "Which" } dd.mono { (Hostile(&plan.words)) }
                dt { "Changed" } dd { b.number { (grouped(run.changed.saturating_sub(run.discarded))) } @if let Some(jobs) = plan.count { " of " (count(jobs)) } }
                dt { "Refused" } dd { (grouped(run.refused)) " because another job holds their key" }
                dt { "Discarded" } dd { (grouped(run.discarded)) " because another job holds their key" }
            }
            @if let Some(jobs) = plan.count {
                progress aria-label="Progress" max=(jobs.counted().max(1)) value=(run.changed + run.refused) {}
            }
            @if run.stage == Stage::Running {
                form.row method="post" action=(page.link(&format!("/bulk/{}/stop", plan.id))) { button.danger { "Stop" } }
            } @else { p { a.button href=(page.link(&plan.back)) { "Back to the jobs" } } }
        }
        @if !run.named.is_empty() {
            section {
                h2.above { "Refused jobs" }
                div.scroll { table {
                    thead { tr { th { "Job" } th { "Held by" } } }
                    tbody { @for job in &run.named { tr {
                        td { (job_link(page, job.id)) }
                        td { @match job.holder { Some(holder) => (job_link(page, holder)), None => "an open transaction" } }
                    } } }
                } }
                @if run.refused > run.named.len() as u64 { p.note { "The first " (run.named.len()) " are named." } }
            }
        }
    }
}
