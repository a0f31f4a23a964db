//! Changes of jobs that are given by id.

use uniqueue::{Client, JobId};

use super::report::{Progress, Unchanged, print_outcome};
use crate::failure::Failure;
use crate::job::verb::Verb;
use crate::verdict::Verdict;

const NO_SUCH_JOB: &str = "there is no such job";

/// Changes jobs in one statement, and gives the reason for each job that was not changed.
pub(super) async fn change(
    client: &Client,
    verb: Verb,
    ids: &[JobId],
    json: bool,
    progress: &Progress,
) -> Result<Verdict, Failure> {
    let changed = progress.follow(verb.change(client, ids).await?, None).await?;
    let mut unchanged = Vec::new();
    let refused = progress.refused();
    let is_refused = |id: &JobId| refused.iter().any(|refused| refused.id == *id);
    for id in ids.iter().filter(|id| !changed.contains(id) && !is_refused(id)) {
        // The job may have entered a suitable state since the statement.
        let was_unsuitable = || Unchanged { id: *id, reason: "it was in no suitable state".to_owned() };
        unchanged.push(reason(client, verb, *id).await?.unwrap_or_else(was_unsuitable));
    }
    print_outcome(&progress.outcome(verb, unchanged), verb.words(), json)
}

/// The jobs that cannot be changed now.
pub(super) async fn unchanged(client: &Client, verb: Verb, ids: &[JobId]) -> Result<Vec<Unchanged>, Failure> {
    let mut unchanged = Vec::new();
    for id in ids {
        unchanged.extend(reason(client, verb, *id).await?);
    }
    Ok(unchanged)
}

/// The jobs that do not exist.
pub(super) async fn missing(client: &Client, ids: &[JobId]) -> Result<Vec<Unchanged>, Failure> {
    let mut missing = Vec::new();
    for id in ids {
        if client.job(*id).await?.is_none() {
            missing.push(Unchanged { id: *id, reason: NO_SUCH_JOB.to_owned() });
        }
    }
    Ok(missing)
}

/// Why a job cannot be changed. `None` if it can.
async fn reason(client: &Client, verb: Verb, id: JobId) -> Result<Option<Unchanged>, Failure> {
    let reason = match client.job(id).await? {
        None => NO_SUCH_JOB.to_owned(),
        Some(job) if verb.can_change().contains(job.state) => return Ok(None),
        Some(job) => format!("it is {}; {} changes jobs in state {}", job.state, verb.name(), verb.can_change()),
    };
    Ok(Some(Unchanged { id, reason }))
}
