//! The policy lab: what a policy would have done with the jobs of a kind that are there, finished ones too.
//!
//! The jobs are taken in the order of their inserts. A job would have met an earlier one with its key that still claimed it
//! then. Whether it did is told by the times in its row: when it was due, when its last attempt began, and when it ended.

use std::collections::HashMap;

use tokio::time::Instant;
use uniqueue::{Claim, OnConflict, UniquePolicy};

use super::jobs::CLOCKS;
use crate::pages::prelude::*;

/// How long the lab may look at jobs.
pub(super) const LAB: Duration = Duration::from_secs(5);

/// How many jobs are read at once.
const PAGE: u32 = 1_000;

/// The most jobs that the answer names.
const NAMED: usize = 100;

/// The effect that a policy would have had.
#[derive(Default)]
struct Replay {
    jobs: u64,
    /// The jobs of which the policy makes no key, and why the first ones have none.
    unfit: u64,
    unfit_jobs: Vec<(JobId, String)>,
    collided: u64,
    collisions: Vec<Collision>,
    /// The last job that would have been inserted with each key.
    kept: HashMap<String, Kept>,
    /// Later jobs were not looked at, for want of time.
    cut_at: Option<OffsetDateTime>,
}

/// A job that would have met another.
struct Collision {
    job: JobId,
    state: JobState,
    inserted: OffsetDateTime,
    other: JobId,
    key: String,
}

/// A job that would have been inserted. Without an end it claims its key still.
struct Kept {
    id: JobId,
    ends: Option<OffsetDateTime>,
}

/// Tries a policy on the jobs of a kind that were inserted within a time. `None`: at any time.
pub(super) async fn replay(
    page: &Page,
    kind: &str,
    policy: &UniquePolicy,
    since: Option<Duration>,
) -> Result<Markup, String> {
    let told = |error: uniqueue::Error| error.to_string();
    policy.check().map_err(told)?;
    if !policy.is_enforced() {
        return Err("The policy enforces nothing: its options are empty.".to_owned());
    }
    let deadline = Instant::now() + LAB;
    let now = page.client().database_time().timeout(LAB).await.map_err(told)?;
    let filter = JobFilter::new().kind(kind).created_before(now).oldest_first().limit(PAGE);
    let filter = filter.given(since, |filter, since| {
        filter.created_after(now - since).id_at_least(JobId::first_at(now - since - CLOCKS))
    });
    let mut replay = Replay::default();
    let mut last: Option<(JobId, OffsetDateTime)> = None;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let next = filter.clone().after(last.map(|(id, _)| id));
        let jobs = match page.client().jobs(next).timeout(left).await {
            Err(error) if error.is_statement_timeout() => {
                replay.cut_at = Some(last.map_or(now - since.unwrap_or_default(), |(_, at)| at));
                break;
            }
            jobs => jobs.map_err(told)?,
        };
        jobs.iter().for_each(|job| replay.add(policy, job));
        match jobs.last() {
            Some(job) if jobs.len() == PAGE as usize => last = Some((job.id, job.created_at)),
            _ => break,
        }
    }
    Ok(tried(page, &replay, now))
}

impl Replay {
    /// Inserts the next job.
    fn add(&mut self, policy: &UniquePolicy, job: &JobRow) {
        self.jobs += 1;
        let claim = match claim(policy, job) {
            Ok(Some(claim)) => claim,
            Ok(None) => return,
            Err(problem) => {
                self.unfit += 1;
                if self.unfit_jobs.len() < 10 {
                    self.unfit_jobs.push((job.id, problem));
                }
                return;
            }
        };
        let earlier = self.kept.get(&claim.key);
        let met = earlier.filter(|earlier| earlier.ends.is_none_or(|ends| ends > job.created_at)).map(|met| met.id);
        if let Some(other) = met {
            self.collided += 1;
            if self.collisions.len() <= NAMED {
                let key = claim.key.clone();
                self.collisions.push(Collision { job: job.id, state: job.state, inserted: job.created_at, other, key });
            }
        }
        if met.is_none() || claim.terms.on_conflict == OnConflict::Replace {
            let ends = claim_end(&claim, job);
            self.kept.insert(claim.key, Kept { id: job.id, ends });
        }
    }
}

/// The claim that an insert of the job would have made.
fn claim(policy: &UniquePolicy, job: &JobRow) -> Result<Option<Claim>, String> {
    let claim =
        policy.read_job(job.kind.as_str(), job.queue.as_str(), &job.args, &job.meta, Some(first_due(job)), |job| {
            policy.resolve(job)
        });
    claim.map_err(|error| error.to_string())
}

/// When the job was first due. A retry moves the time: after one, the time of the insert stands for it.
fn first_due(job: &JobRow) -> OffsetDateTime {
    if job.attempt <= 1 && job.state != JobState::Retryable { job.scheduled_at } else { job.created_at }
}

/// When the job's claim ended, as far as its row tells. `None`: it has not.
fn claim_end(claim: &Claim, job: &JobRow) -> Option<OffsetDateTime> {
    let state = life(job).into_iter().find(|(state, _)| !claim.terms.states.contains(*state)).map(|(_, from)| from);
    let start = job.attempted_at.filter(|_| claim.terms.until_start);
    let limit = match (claim.terms.period, claim.terms.ttl) {
        (Some(period), _) => period.after(job.created_at),
        (None, Some(ttl)) => ttl.after(job.created_at.max(first_due(job))),
        (None, None) => None,
    };
    [state, start, limit].into_iter().flatten().min()
}

/// The states of the job in their order, and when each began. Between a first attempt and the last one it counts as
/// retryable.
fn life(job: &JobRow) -> Vec<(JobState, OffsetDateTime)> {
    if job.state == JobState::Pending {
        return vec![(JobState::Pending, job.created_at)];
    }
    let due = first_due(job);
    let mut life = Vec::new();
    if due > job.created_at {
        life.push((JobState::Scheduled, job.created_at));
    }
    if job.state != JobState::Scheduled {
        life.push((JobState::Available, due.max(job.created_at)));
    }
    if let Some(attempted_at) = job.attempted_at {
        if job.attempt > 1 {
            life.push((JobState::Retryable, job.created_at));
        }
        life.push((JobState::Running, attempted_at));
    }
    let failed_at = job.errors.last().map(|error| error.at).filter(|_| job.state == JobState::Retryable);
    life.extend(failed_at.or(job.finalized_at).map(|at| (job.state, at)));
    // A job that was cancelled before it was due was never available.
    life.retain(|(state, from)| job.finalized_at.is_none_or(|end| *state == job.state || *from < end));
    life
}

/// How many jobs a policy would have kept out.
pub(super) fn would_have_met(collided: u64, jobs: u64) -> Markup {
    html! {
        p.big {
            b.number { (grouped(collided)) } " of " b.number { (grouped(jobs)) } " jobs would have met a job with the same key."
        }
    }
}

fn tried(page: &Page, replay: &Replay, now: OffsetDateTime) -> Markup {
    let rows = fitting(&replay.collisions, NAMED, |one| {
        html! { tr {
            td.nowrap.l1 { (job_link(page, one.job)) }
            td.num.r1 { (ago(one.inserted, now)) }
            td.nowrap.r2 { (state(one.state)) }
            td.nowrap.l2 { (job_link(page, one.other)) }
            td.clip { (key_cell(page, &one.key)) }
        } }
    });
    html! {
        section.panel aria-live="polite" {
            (would_have_met(replay.collided, replay.jobs))
            @if let Some(cut_at) = replay.cut_at {
                p.callout.warning {
                    "There was time for the jobs that were inserted before " (at(cut_at)) " UTC (" (LAB.as_secs())
                    " s). Later ones were not looked at."
                }
            }
            dl.facts {
                dt { "Would have been inserted" } dd { (grouped(replay.jobs - replay.collided)) }
                @if replay.unfit > 0 { dt { "No key can be made" } dd { (grouped(replay.unfit)) } }
            }
            @if rows.shown > 0 {
                (rows.table(html! { th { "Job" } th.num { "Inserted" } th { "State now" } th { "Would have met" } th { "Key" } }))
                (rows.note())
            }
            @for (job, problem) in &replay.unfit_jobs { p.note { (job_link(page, *job)) ": " (Cell(problem)) } }
            p.note {
                "The jobs of this kind that are there, finished ones too, in the order of their inserts. A job meets an earlier one that "
                "still claims the key then, by the times in its row. A job that was retried counts as claiming in between. Jobs that "
                "were deleted since are not seen. Nothing was changed."
            }
        }
    }
}
