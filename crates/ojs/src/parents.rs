//! The results of the jobs that a job ran after.

use serde_json::Value;
use uniqueue::JobParent;

use crate::details::Details;
use crate::shape::Shape;

/// The results of the jobs that a job of a workflow ran after, in the order of the workflow. `None`: it ran after none.
pub(crate) fn results(parents: Vec<JobParent>, details: &Details) -> Option<Value> {
    if parents.is_empty() {
        return None;
    }
    let count = parents.len();
    // Ids are made in the order of the workflow.
    let mut results = parents.into_iter().map(|parent| parent.output.unwrap_or_default());
    // A parent that was a duplicate can be the parent of two steps, so there may be fewer than the steps say.
    let shapes = details.parents.as_ref().filter(|shapes| shapes.iter().map(Shape::jobs).sum::<usize>() == count);
    Some(Value::Array(match shapes {
        Some(shapes) => Shape::fill_all(shapes, &mut results),
        None => results.collect(),
    }))
}
