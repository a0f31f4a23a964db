//! How the results of steps are nested.

use std::ops::Range;

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

    /// Takes the results of its jobs. A workflow's results are an object by the places of its jobs.
    fn fill(&self, results: &mut impl Iterator<Item = Value>) -> Value {
        match self {
            Self::Job(_) => results.next().unwrap_or_default(),
            Self::Workflow(steps) => {
                let filled = Self::fill_all(steps, results).into_iter().enumerate();
                let members = filled.map(|(place, result)| (place.to_string(), result));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    /// The results of these shapes that are shown.
    pub(crate) fn fill_all(shapes: &[Self], results: &mut impl Iterator<Item = Value>) -> Vec<Value> {
        let filled = shapes.iter().map(|shape| (shape, shape.fill(results)));
        filled.filter(|(shape, _)| **shape != Self::HIDDEN).map(|(_, result)| result).collect()
    }

    /// These shapes with a hidden job for each place of `all` that comes before that of a job of theirs. `own`: the places of
    /// their jobs, in order.
    pub(crate) fn with_hidden(
        shapes: &[Self],
        all: &mut Range<usize>,
        own: &mut impl Iterator<Item = usize>,
    ) -> Vec<Self> {
        let mut filled = Vec::new();
        for shape in shapes {
            match shape {
                Self::Job(_) => {
                    let place = own.next();
                    let hidden = all.by_ref().take_while(|one| Some(*one) != place);
                    filled.extend(hidden.map(|_| Self::HIDDEN));
                    filled.push(shape.clone());
                }
                Self::Workflow(steps) => filled.push(Self::Workflow(Self::with_hidden(steps, all, own))),
            }
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_results_of_a_workflow_in_a_workflow_are_an_object_by_place() {
        let shapes: Vec<Shape> = serde_json::from_value(json!([1, [1, [1, 1]]])).unwrap();
        let mut results = (1..).map(|n| json!(n));
        let filled = Shape::fill_all(&shapes, &mut results);
        assert_eq!(filled, [json!(1), json!({ "0": 2, "1": { "0": 3, "1": 4 } })]);
    }

    #[test]
    fn a_hidden_job_takes_a_result_and_shows_none() {
        let shapes: Vec<Shape> = serde_json::from_value(json!([[1, 1], 1])).unwrap();
        let mut all = 0..7;
        let shapes = Shape::with_hidden(&shapes, &mut all, &mut [1, 3, 5].into_iter());
        assert_eq!((json!(shapes), all), (json!([[0, 1, 0, 1], 0, 1]), 6..7));
        let filled = Shape::fill_all(&shapes, &mut (0..).map(|n| json!(n)));
        assert_eq!(filled, [json!({ "0": 1, "1": 3 }), json!(5)]);
    }
}
