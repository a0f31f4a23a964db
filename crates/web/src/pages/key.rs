//! One unique key: who holds it, what frees it, and the jobs that have had it.

use uniqueue::Error;
use uniqueue_admin::{KeyHolder, SuppressedDuplicate, WaitingInsert};

use super::explain::{MADE_FROM, made_from};
use crate::pages::prelude::*;

/// How many of the last jobs are searched for the history of a key, which only holders have an index for. Reading them
/// takes most of the time of the page.
const AMONG: u32 = 10_000;

/// A key as the database knows it.
pub(crate) struct KeyState {
    held: Option<KeyHolder>,
    /// `None`: the search took too long.
    history: Option<Vec<JobRow>>,
    suppressed: Vec<SuppressedDuplicate>,
    waiting: Vec<WaitingInsert>,
    /// The canonical text of the key.
    made_from: Option<String>,
}

/// The job that claims a key.
pub(super) async fn held(page: &Page, key: &str) -> Result<Option<KeyHolder>, Failure> {
    let claims = page.admin().claims().from(key).limit(1).timeout(LOOK_UP).await?;
    Ok(claims.into_iter().find(|held| held.claim.unique_key == key))
}

async fn read(page: &Page, key: &str) -> Result<Timed<KeyState>, Failure> {
    let held = held(page, key).await?;
    let history = in_time(page.admin().key_history(key, AMONG).timeout(LOOK_UP).await)?;
    let suppressed = page.admin().suppressed_duplicates().unique_key(key).timeout(LOOK_UP).await?;
    let waiting = match page.admin().waiting_inserts().timeout(LOOK_UP).await {
        Ok(waiting) => waiting.into_iter().filter(|one| one.unique_key.as_deref() == Some(key)).collect(),
        Err(Error::Database(_)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let holder = match &held {
        Some(held) => page.client().job(held.claim.holder).timeout(LOOK_UP).await?,
        None => None,
    };
    let made_from = match &holder {
        Some(job) => made_from(page, job).await,
        None => None,
    };
    let now = page.now().await?;
    Ok(Timed::new(now, KeyState { held, history, suppressed, waiting, made_from }))
}

pub(crate) async fn show(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let key = fields.need("key")?;
    let answer = page.shared(key, read(&page, key)).await?;
    let (now, KeyState { held, history, suppressed, waiting, made_from }) = (answer.now(), &answer.of);
    let history =
        history.as_ref().map(|jobs| jobs.iter().map(|job| page.app.redacted(job.clone())).collect::<Vec<_>>());
    let holding = held.as_ref().and_then(|held| history.as_ref()?.iter().find(|job| job.id == held.claim.holder));
    let body = html! {
        div.callout.the-key {
            @if let Some(text) = made_from { p.mono { (Start(text, MADE_FROM)) } }
            p.mono.note { (Hostile(key)) }
        }
        @if fields.get("did") == Some("release") { p.callout.notice role="status" { "The claim is released. The key is free, and the job goes on." } }
        @if fields.get("did") == Some("none") { p.callout.notice role="status" { "No job held the key any more." } }
        div.columns {
            (holder(&page, key, held.as_ref(), holding, now))
            section.panel {
                h2 { "Duplicates" }
                @if suppressed.is_empty() {
                    p.empty { "None were counted. Only audited kinds are: see " a href=(page.link("/duplicates")) { "Duplicates" } "." }
                }
                @for counter in suppressed {
                    p { b { (grouped(counter.suppressed)) } " suppressed of " (Hostile(&counter.kind)) ", the last " (ago(counter.last_at, now)) }
                }
                @for one in waiting {
                    p { "An insert (pid " (one.pid) ") waits for a transaction of pid " (one.blocker_pid.map(|pid| pid.to_string()).unwrap_or_default())
                        @if let Some(length) = one.waiting_for { " for " (span(length)) } "." }
                }
            }
        }
        section {
            h2.above { "Jobs with this key" }
            @match &history {
                None => p.callout.warning { "The search of the last jobs took longer than " (LOOK_UP.as_secs()) " s and was stopped." }
                Some(jobs) => {
                    (rows(&page, jobs, held.as_ref(), now))
                    p.note { "The holder, and up to fifty jobs among the last " (grouped(u64::from(AMONG))) " of all kinds." }
                }
            }
        }
        (cli(&format!("uniqueue unique show {}", argument(key))))
    };
    let title = format!(
        "Key {}",
        if key.len() > 40 { format!("{}…", &key[..key.floor_char_boundary(36)]) } else { key.to_owned() }
    );
    Ok(document(&page, Document { title: &title, is_live: true, actions: html! {}, body }))
}

/// The job that claims the key, what frees the key, and when. `job` is its row, where that was found.
fn holder(page: &Page, key: &str, held: Option<&KeyHolder>, job: Option<&JobRow>, now: OffsetDateTime) -> Markup {
    let Some(held) = held else {
        return html! {
            section.panel { h2 { "Holder" } p { b { "The key is free." } " The next insert with it makes a job." } }
        };
    };
    html! {
        section.panel {
            h2 { "Holder" }
            p.row { (job_link(page, held.claim.holder)) (state(held.claim.holder_state)) (Hostile(&held.kind)) }
            dl.facts {
                dt { "Queue" } dd { (Hostile(&held.queue)) }
                dt { "Held" } dd { "since " (at(held.created_at)) " · " (ago(held.created_at, now)) }
                dt { "Claims in" } dd { (held.claim.claims_in) }
                dt { "Free" } dd { (held.claim.frees()) }
                dt { "At the latest" }
                dd { @match held.claim.unique_until {
                    Some(until) => { "in " (countdown(until, now)) " · " (at(until)) }
                    None => "there is no time limit",
                } }
                @if let Some(job) = job.filter(|job| waits(job) && job.scheduled_at > now) {
                    dt { "Next attempt" } dd { "in " (countdown(job.scheduled_at, now)) " · " (at(job.scheduled_at)) }
                }
            }
            @if page.may(Right::Change) {
                details data-hold {
                    summary { "Release the claim" }
                    form.row method="post" action=(page.link("/key/release")) {
                        input type="hidden" name="key" value=(key);
                        span { "The job goes on. The next insert is no duplicate." }
                        button.danger { "Release the claim" }
                    }
                }
            }
        }
    }
}

/// Whether the job starts by itself when its time comes.
fn waits(job: &JobRow) -> bool {
    matches!(job.state, JobState::Scheduled | JobState::Retryable)
}

fn rows(page: &Page, jobs: &[JobRow], held: Option<&KeyHolder>, now: OffsetDateTime) -> Markup {
    let rows = fitting(jobs, jobs.len(), |job| {
        html! {
            tr id={ "job-" (job.id) } {
                td.nowrap.l1 { (job_link(page, job.id)) }
                td.clip { (Cell(&job.kind)) }
                td.nowrap.r1 { (state(job.state)) }
                td.l2.wrap { (why(job, held, now)) }
                td.num.r2 { (ago(job.created_at, now)) }
            }
        }
    });
    html! {
        @if jobs.is_empty() { p.empty { "No job has it." } } @else {
            (rows.table(html! { th { "Job" } th { "Kind" } th { "State" } th { "Claims it" } th.num { "Inserted" } }))
            (rows.note())
        }
    }
}

/// Why a job claims its key, or does not.
fn why(job: &JobRow, held: Option<&KeyHolder>, now: OffsetDateTime) -> Markup {
    let states = job.unique_states;
    html! {
        @if held.is_some_and(|held| held.claim.holder == job.id) { b { "yes" } ", it holds the key" }
        @else if states.is_none_or(|states| states.is_empty()) { "no, it has given up its claim" }
        @else if job.unique_until.is_some_and(|until| until <= now) { "no, its claim expired" }
        @else if states.is_some_and(|states| !states.contains(job.state)) { "no, its policy does not claim in " (job.state) }
        @else { "no, another job held the key when it came back" }
    }
}

/// Makes the holder give up its claim.
pub(crate) async fn release(page: Page, body: String) -> Result<Response, Failure> {
    let fields = Fields::read(&body);
    let key = fields.need("key")?;
    let released = by!(page, page.client().release_claim(key)).await?;
    page.log("release_claim", key);
    let did = if released.is_some() { "release" } else { "none" };
    Ok(page.go_to(&url("/key", &[("key", key), ("did", did)])))
}
