//! The results of the jobs that a job ran after.
//!
//! A workflow keeps which steps each step runs after. The ids of the parents do not tell their order: a job with a unique key can
//! stand for several steps, be older than the workflow, or be replaced by a newer job.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;
use sqlx::PgConnection;
use uniqueue::{JobId, JobParent, JobState};

use crate::details::Details;
use crate::door::Door;
use crate::problem::Problem;
use crate::shape::Shape;
use crate::store::Workflow;
use crate::workflow::ids;

type Results = HashMap<JobId, Value>;

/// The results of the jobs that each of these jobs ran after, in the order of its workflow. A job that ran after none is left
/// out. It takes two statements, however many jobs there are, and one more where a parent was replaced.
pub(crate) async fn results(
    door: &Door,
    connection: &mut PgConnection,
    children: &[(JobId, &Details)],
) -> Result<Results, Problem> {
    let children = children.iter().filter_map(|(id, details)| Some((*id, details.workflow?, *details)));
    let children: Vec<_> = children.collect();
    if children.is_empty() {
        return Ok(Results::new());
    }
    let mut parents = door.client.parents_of(children.iter().map(|(id, ..)| *id)).tx(&mut *connection).await?;
    let workflows: BTreeSet<_> =
        children.iter().filter(|(id, ..)| parents.contains_key(id)).map(|(_, workflow, _)| *workflow).collect();
    if workflows.is_empty() {
        return Ok(Results::new());
    }
    let workflows = door.store.workflows(&mut *connection, &workflows.into_iter().collect::<Vec<_>>()).await?;
    let workflows: HashMap<_, _> = workflows.into_iter().map(|workflow| (workflow.id, workflow)).collect();
    let mut found = Vec::with_capacity(children.len());
    for (id, workflow, details) in children {
        let Some(parents) = parents.remove(&id) else { continue };
        let awaited = match workflows.get(&workflow).and_then(|workflow| before(workflow, id)) {
            Some(awaited) => awaited,
            None => parents.iter().map(|parent| parent.id).collect(),
        };
        // Where a job waits for a replaced job and for its successor, it keeps both as parents.
        let ended = parents.into_iter().filter(|parent| parent.state.is_some_and(|state| state != JobState::Cancelled));
        let outputs = ended.map(|JobParent { id, output, .. }| (id, output.unwrap_or_default()));
        found.push((id, details, awaited, outputs.collect::<Results>()));
    }
    let replaced = found
        .iter()
        .flat_map(|(_, _, awaited, outputs)| awaited.iter().copied().filter(|awaited| !outputs.contains_key(awaited)));
    let replaced: Vec<_> = replaced.collect();
    let successors = match replaced.is_empty() {
        true => HashMap::new(),
        false => door.store.successors(connection, &replaced).await?,
    };
    let of_child = |(id, details, awaited, outputs): (JobId, &Details, Vec<JobId>, Results)| {
        let with_successors = |job: JobId| [job].into_iter().chain(successors.get(&job).into_iter().flatten().copied());
        let found = |job: JobId| with_successors(job).find_map(|job| outputs.get(&job));
        // The row of a replaced job names its successor. Where that row is deleted, the one output that is left belongs to the one
        // job without an output. If several jobs have none, nothing tells whose it is.
        let known: BTreeSet<_> = awaited.iter().copied().flat_map(with_successors).collect();
        let mut left = outputs.iter().filter(|(job, _)| !known.contains(job)).map(|(_, output)| output);
        let without: BTreeSet<_> = awaited.iter().filter(|job| found(**job).is_none()).collect();
        let left = left.next().filter(|_| left.next().is_none() && without.len() == 1);
        let output = |job: JobId| found(job).or(left).cloned().unwrap_or_default();
        let mut results = awaited.into_iter().map(output);
        let shown = match &details.parents {
            Some(shapes) => Shape::fill_all(shapes, &mut results),
            None => results.collect(),
        };
        (id, Value::Array(shown))
    };
    Ok(found.into_iter().map(of_child).collect())
}

/// The jobs of the steps that the step of a job runs after. A job that stands for several steps comes as often.
fn before(workflow: &Workflow, child: JobId) -> Option<Vec<JobId>> {
    let jobs = ids(&workflow.parts);
    let place = jobs.iter().position(|job| *job == child)?;
    workflow.after.get(place)?.iter().map(|before| jobs.get(*before).copied()).collect()
}
