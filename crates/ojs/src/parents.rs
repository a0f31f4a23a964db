//! The results of the jobs that a job ran after.
//!
//! A job keeps which steps of its workflow it ran after. The ids of its parents do not tell their order: a job with a unique key can
//! stand for several steps, be older than the workflow, or be replaced by a newer job.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};
use sqlx::PgConnection;
use uniqueue::{JobId, JobParent, JobState};

use crate::details::Details;
use crate::door::Door;
use crate::problem::Problem;
use crate::store::{OF_IDS, Successor};

type Outputs = HashMap<JobId, Value>;

/// The results of the jobs that each of these jobs ran after, in the order of its workflow. A job that ran after none is left
/// out. It takes two statements, however many jobs there are, and one more where a parent was replaced.
pub(crate) async fn results(
    door: &Door,
    connection: &mut PgConnection,
    children: &[(JobId, &Details)],
) -> Result<Outputs, Problem> {
    let children = children.iter().filter(|(_, details)| !details.parents.is_empty());
    let children: Vec<_> = children.filter_map(|(id, details)| Some((*id, details.workflow?, *details))).collect();
    if children.is_empty() {
        return Ok(Outputs::new());
    }
    let mut parents = door.client.parents_of(children.iter().map(|(id, ..)| *id)).tx(&mut *connection).await?;
    let workflows: BTreeSet<_> = children.iter().map(|(_, workflow, _)| *workflow).collect();
    let workflows = door.store.workflows(OF_IDS, json!({ "ids": workflows })).tx(&mut *connection).await?;
    let workflows: HashMap<_, _> = workflows.into_iter().map(|workflow| (workflow.id, workflow.jobs)).collect();
    let mut found = Vec::with_capacity(children.len());
    for (id, workflow, details) in children {
        let (Some(parents), Some(jobs)) = (parents.remove(&id), workflows.get(&workflow)) else { continue };
        // Where a job waits for a replaced job and for its successor, it keeps both as parents.
        let ended = parents.into_iter().filter(|parent| parent.state.is_some_and(|state| state != JobState::Cancelled));
        let outputs = ended.map(|JobParent { id, output, .. }| (id, output.unwrap_or_default())).collect::<Outputs>();
        let places = details.parents.iter().flat_map(|step| step.places());
        let awaited: BTreeSet<_> = places.filter_map(|place| jobs.get(place).copied()).collect();
        found.push((id, details, jobs, awaited, outputs));
    }
    let replaced =
        found.iter().flat_map(|(.., awaited, outputs)| awaited.iter().filter(|job| !outputs.contains_key(job)));
    let replaced: Vec<_> = replaced.copied().collect();
    let mut successors = HashMap::<_, Vec<_>>::new();
    if !replaced.is_empty() {
        for Successor { replaced, id } in door.store.successors(&replaced).tx(connection).await? {
            successors.entry(replaced).or_default().push(id);
        }
    }
    let of_child = |(id, details, jobs, awaited, outputs): (JobId, &Details, &Vec<JobId>, BTreeSet<JobId>, Outputs)| {
        let with_successors = |job: JobId| [job].into_iter().chain(successors.get(&job).into_iter().flatten().copied());
        let found = |job: JobId| with_successors(job).find_map(|job| outputs.get(&job));
        // The row of a replaced job names its successor. Where that row is deleted, the one output that is left belongs to the one
        // job without an output. If several jobs have none, nothing tells whose it is.
        let known: BTreeSet<_> = awaited.iter().copied().flat_map(with_successors).collect();
        let mut left = outputs.iter().filter(|(job, _)| !known.contains(job)).map(|(_, output)| output);
        let has_one_without = awaited.iter().filter(|job| found(**job).is_none()).count() == 1;
        let left = left.next().filter(|_| left.next().is_none() && has_one_without);
        let result = |place: usize| jobs.get(place).and_then(|job| found(*job)).or(left).cloned().unwrap_or_default();
        (id, details.parents.iter().map(|step| step.fill(&result)).collect())
    };
    Ok(found.into_iter().map(of_child).collect())
}
