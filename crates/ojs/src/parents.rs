//! The results of the jobs that a job ran after.

use std::collections::HashMap;

use serde_json::Value;
use sqlx::PgExecutor;
use uniqueue::{JobId, JobParent};
use uuid::Uuid;

use crate::details::Details;
use crate::problem::Problem;
use crate::shape::Shape;
use crate::store::Store;
use crate::workflow::jobs_of;

/// The places of jobs in their workflow. `None`: the job stands for several steps.
pub(crate) type Places = HashMap<JobId, Option<usize>>;

/// The workflow of a job whose parents are not in the order of the workflow. Ids are made in that order, the id of the workflow
/// first. A parent that was a duplicate has the id of an older job, and one that was replaced has the id of a newer job.
pub(crate) fn unordered(child: JobId, parents: &[JobParent], details: &Details) -> Option<Uuid> {
    let is_own = |workflow: Uuid, parent: JobId| workflow < parent.as_uuid() && parent < child;
    details.workflow.filter(|workflow| !parents.iter().all(|parent| is_own(*workflow, parent.id)))
}

/// The places of the jobs of these workflows.
pub(crate) async fn places<'c>(
    store: &Store,
    executor: impl PgExecutor<'c>,
    workflows: &[Uuid],
) -> Result<HashMap<Uuid, Places>, Problem> {
    if workflows.is_empty() {
        return Ok(HashMap::new());
    }
    let read = store.workflows(executor, workflows).await?;
    Ok(read.iter().map(|workflow| (workflow.id, places_in(jobs_of(workflow)))).collect())
}

fn places_in(jobs: Vec<JobId>) -> Places {
    let mut places = Places::new();
    for (place, job) in jobs.into_iter().enumerate() {
        places.entry(job).and_modify(|known| *known = None).or_insert(Some(place));
    }
    places
}

/// Sorts parents by their places. Returns whether each has one.
fn sort(parents: &mut [JobParent], places: &Places) -> bool {
    let place = |parent: &JobParent| places.get(&parent.id).copied().flatten();
    let have_places = parents.iter().all(|parent| place(parent).is_some());
    if have_places {
        parents.sort_by_key(place);
    }
    have_places
}

/// The results of the jobs that a job of a workflow ran after, in the order of the workflow. `None`: it ran after none.
/// `places`: those of the [`unordered`] workflow.
pub(crate) fn results(
    child: JobId,
    mut parents: Vec<JobParent>,
    details: &Details,
    places: &HashMap<Uuid, Places>,
) -> Option<Value> {
    if parents.is_empty() {
        return None;
    }
    let count = parents.len();
    let is_ordered = match unordered(child, &parents, details) {
        Some(workflow) => places.get(&workflow).is_some_and(|places| sort(&mut parents, places)),
        None => true,
    };
    let mut results = parents.into_iter().map(|parent| parent.output.unwrap_or_default());
    // A parent that was a duplicate can be the parent of two steps, so there may be fewer than the steps say.
    let is_whole = |shapes: &Vec<Shape>| is_ordered && shapes.iter().map(Shape::jobs).sum::<usize>() == count;
    let shapes = details.parents.as_ref().filter(|shapes| is_whole(shapes));
    Some(Value::Array(match shapes {
        Some(shapes) => Shape::fill_all(shapes, &mut results),
        None => results.collect(),
    }))
}
