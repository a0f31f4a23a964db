//! Changes of jobs that wait or are dead.
//!
//! Nothing here frees a unique lock, as in Faktory: a job that is removed stays as a cancelled row, which holds its key until its
//! deadline.

use uniqueue::{Client, JobFilter, JobId, JobRow, JobState};
use uniqueue_admin::Given;
use uniqueue_remote::FetchedJob;

use crate::command::{Mutation, MutationFilter, MutationVerb, Target};
use crate::glob;
use crate::payload::OWN;
use crate::reply::Refusal;
use crate::sent::{self, Fetched};

/// How many jobs are looked at and changed at a time.
const PAGE: u32 = 1_000;

/// Changes the jobs that a mutation names.
pub(crate) async fn mutate(client: &Client, mutation: Mutation, actor: &str) -> Result<(), Refusal> {
    let Mutation { cmd, target, filter } = mutation;
    let state = match target {
        Target::Dead => JobState::Discarded,
        Target::Retries => JobState::Retryable,
        Target::Scheduled => JobState::Scheduled,
    };
    let filter = match cmd {
        MutationVerb::Clear => MutationFilter::default(),
        _ => filter.unwrap_or_default(),
    };
    let mut after: Option<JobId> = None;
    loop {
        let jobs = JobFilter::new().states(state).given(given(&filter.jobtype), JobFilter::kind);
        let rows = client.jobs(jobs.oldest_first().limit(PAGE).after(after)).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = Some(last.id);
        let ids: Vec<JobId> = rows.iter().filter(|row| is_meant(row, &filter)).map(|row| row.id).collect();
        if !ids.is_empty() {
            change(client, cmd, state, ids, actor).await?;
        }
    }
}

/// Whether a filter means a job. Faktory looks for ids only where the filter has no pattern and no type.
fn is_meant(row: &JobRow, filter: &MutationFilter) -> bool {
    let job = Fetched::from(FetchedJob::from(row));
    if let Some(pattern) = given(&filter.regexp) {
        return sent::json(&job, row.finalized_at.is_none()).is_ok_and(|job| glob::matches(pattern, &job));
    }
    match filter.jids.as_deref() {
        Some(jids) if !jids.is_empty() && given(&filter.jobtype).is_none() => jids.contains(&job.jid),
        _ => true,
    }
}

/// A text of a filter. An empty one counts as none.
fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

async fn change(
    client: &Client,
    verb: MutationVerb,
    state: JobState,
    ids: Vec<JobId>,
    actor: &str,
) -> Result<(), Refusal> {
    match (verb, state) {
        (MutationVerb::Requeue, _) => client.retry(ids).actor(actor).await?,
        (MutationVerb::Kill, JobState::Discarded) => ids,
        (MutationVerb::Kill, _) => client.discard(ids).actor(actor).await?,
        (MutationVerb::Discard | MutationVerb::Clear, JobState::Discarded) => {
            // A final job is not cancelled. In one transaction no worker sees it in between.
            let mut tx = client.pool().begin().await.map_err(uniqueue::Error::from)?;
            client.retry(ids.clone()).tx(&mut tx).await?;
            let changed = client.cancel(ids).actor(actor).tx(&mut tx).await?;
            tx.commit().await.map_err(uniqueue::Error::from)?;
            changed
        }
        (MutationVerb::Discard | MutationVerb::Clear, _) => client.cancel(ids).actor(actor).await?,
    };
    Ok(())
}

/// Deletes every job that came through a door.
pub(crate) async fn flush(client: &Client, actor: &str) -> Result<(), Refusal> {
    let ours = || JobFilter::new().meta(serde_json::json!({ OWN: {} }));
    let waiting = [JobState::Available, JobState::Pending, JobState::Retryable, JobState::Running, JobState::Scheduled];
    client.cancel(ours().states(waiting)).actor(actor).await?;
    client.delete(ours()).actor(actor).await?;
    Ok(())
}
