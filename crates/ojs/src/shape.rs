//! How the results of steps are nested.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The result of a step: that of one job, or those of the jobs of a workflow in the workflow.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Shape {
    /// 1. A job whose result is not shown is 0. Numbers take the least room in JSON.
    Job(u8),
    Workflow(Vec<Shape>),
}

impl Shape {
    pub(crate) const JOB: Self = Self::Job(1);
    pub(crate) const HIDDEN: Self = Self::Job(0);

    /// The number of jobs.
    pub(crate) fn jobs(&self) -> usize {
        match self {
            Self::Job(_) => 1,
            Self::Workflow(steps) => steps.iter().map(Self::jobs).sum(),
        }
    }

    /// Takes the results of its jobs. Those of a workflow are an object, whose members are named by the places of the jobs.
    pub(crate) fn fill(&self, results: &mut impl Iterator<Item = Value>) -> Value {
        match self {
            Self::Job(_) => results.next().unwrap_or_default(),
            Self::Workflow(steps) => {
                let members = steps.iter().enumerate().map(|(place, step)| (place.to_string(), step.fill(results)));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_results_of_a_workflow_in_a_workflow_are_an_object_by_place() {
        let shapes: Vec<Shape> = serde_json::from_value(json!([1, [1, [1, 1]]])).unwrap();
        assert_eq!(shapes[1].jobs(), 3);
        let mut results = (1..).map(|n| json!(n));
        let filled: Vec<_> = shapes.iter().map(|shape| shape.fill(&mut results)).collect();
        assert_eq!(filled, [json!(1), json!({ "0": 2, "1": { "0": 3, "1": 4 } })]);
    }
}
