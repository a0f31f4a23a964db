//! Changes of jobs that are given by id.

use std::collections::HashMap;

use uniqueue::{Client, JobFilter, JobId, JobState};
use uniqueue_admin::JobVerb;

use super::report::{Progress, Unchanged, answer};
use crate::exit::Failure;
use crate::output::{Answer, Form};
use crate::own_name::own_name;

/// The number of jobs that one look-up reads.
const AT_ONCE: usize = 1_000;

const NO_SUCH_JOB: &str = "there is no such job";

/// Changes jobs in one statement, and gives the reason for each job that was not changed.
pub(super) async fn change(
    client: &Client,
    verb: JobVerb,
    ids: &[JobId],
    form: &Form,
    progress: &Progress,
) -> Result<Answer, Failure> {
    let changed = progress.follow(verb.change(client, ids).actor(own_name()), None).await?;
    let refused = progress.refused();
    let is_refused = |id: &JobId| refused.iter().any(|refused| refused.id == *id);
    let left: Vec<_> = ids.iter().copied().filter(|id| !changed.contains(id) && !is_refused(id)).collect();
    let found = found(client, &left).await?;
    let unchanged = left.iter().map(|id| {
        // The job may have entered a suitable state since the statement.
        let was_unsuitable = || Unchanged { id: *id, reason: "it was in no suitable state".to_owned() };
        reason(found.get(id), verb, *id).unwrap_or_else(was_unsuitable)
    });
    let unchanged = unchanged.collect();
    answer(&progress.outcome(verb, unchanged), verb.words(), form)
}

/// The jobs that cannot be changed now.
pub(super) async fn unchanged(client: &Client, verb: JobVerb, ids: &[JobId]) -> Result<Vec<Unchanged>, Failure> {
    let found = found(client, ids).await?;
    Ok(ids.iter().filter_map(|id| reason(found.get(id), verb, *id)).collect())
}

/// The jobs that do not exist.
pub(super) async fn missing(client: &Client, ids: &[JobId]) -> Result<Vec<Unchanged>, Failure> {
    let found = found(client, ids).await?;
    let missing = ids.iter().filter(|id| !found.contains_key(id));
    Ok(missing.map(|id| Unchanged { id: *id, reason: NO_SUCH_JOB.to_owned() }).collect())
}

/// The states of the jobs that exist.
async fn found(client: &Client, ids: &[JobId]) -> Result<HashMap<JobId, JobState>, Failure> {
    let mut found = HashMap::new();
    for ids in ids.chunks(AT_ONCE) {
        let jobs = client.jobs(JobFilter::new().ids(ids.iter().copied()).limit(AT_ONCE as u32)).await?;
        found.extend(jobs.into_iter().map(|job| (job.id, job.state)));
    }
    Ok(found)
}

/// Why a job cannot be changed. `None` if it can.
fn reason(state: Option<&JobState>, verb: JobVerb, id: JobId) -> Option<Unchanged> {
    let reason = match state {
        None => NO_SUCH_JOB.to_owned(),
        Some(state) if verb.states().contains(*state) => return None,
        Some(state) => format!("it is {state}; {} changes jobs in state {}", verb.words().name, verb.states()),
    };
    Some(Unchanged { id, reason })
}
