//! The results of the jobs that a job ran after.

use serde_json::{Map, Value};
use uniqueue::{JobParent, Request};

use crate::details::Details;
use crate::problem::Problem;

/// The results of the jobs that a job of a workflow ran after, in the order of the workflow. `None`: it ran after none.
/// `parents` is sent for jobs of workflows only.
pub(crate) async fn results(
    parents: Request<'_, Vec<JobParent>>,
    meta: &Map<String, Value>,
) -> Result<Option<Value>, Problem> {
    if Details::of(meta).workflow.is_none() {
        return Ok(None);
    }
    // Ids are made in the order of the workflow.
    let results: Vec<_> = parents.await?.into_iter().map(|parent| parent.output.unwrap_or_default()).collect();
    Ok((!results.is_empty()).then_some(Value::Array(results)))
}
