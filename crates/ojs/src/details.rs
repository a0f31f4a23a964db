//! The members of a job that uniqueue has no column for. They are one member of the job's meta, which answers leave out.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// The name of the member.
pub(crate) const MEMBER: &str = "ojs.door";

/// The members of a job that uniqueue has no column for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct Details {
    /// The retry policy, as it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry: Option<Map<String, Value>>,
    /// The longest time that an attempt may take, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
    /// How long a fetch reserves the job, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) visibility_timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tags: Option<Vec<Value>>,
    /// The member `metadata` of the options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<Map<String, Value>>,
    /// Members of the envelope that this version of OJS does not know.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) unknown: Map<String, Value>,
    /// The workflow that the job belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workflow: Option<Uuid>,
    /// The results that it gets, of jobs that it ran after.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) parents: Vec<Results>,
}

/// The result of a step that a job ran after: that of one job, or those of the jobs of a workflow in the workflow.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Results {
    /// The place of the job in the workflow.
    Job(usize),
    Workflow(Vec<Results>),
}

impl Results {
    /// The places of its jobs, in order.
    pub(crate) fn places(&self) -> Vec<usize> {
        match self {
            Self::Job(place) => vec![*place],
            Self::Workflow(steps) => steps.iter().flat_map(Self::places).collect(),
        }
    }

    /// The results of its jobs. Those of a workflow are an object by the places of its steps.
    pub(crate) fn fill(&self, result: &impl Fn(usize) -> Value) -> Value {
        match self {
            Self::Job(place) => result(*place),
            Self::Workflow(steps) => {
                let filled = steps.iter().enumerate().map(|(place, step)| (place.to_string(), step.fill(result)));
                Value::Object(filled.collect())
            }
        }
    }
}

impl Details {
    /// Of a stored job. A job that came through another door, or whose member was changed by hand, has none.
    pub(crate) fn of(meta: &Map<String, Value>) -> Self {
        meta.get(MEMBER).and_then(|member| Self::deserialize(member).ok()).unwrap_or_default()
    }

    /// The longest time that an attempt may take.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }

    /// How long a fetch reserves the job.
    pub(crate) fn visibility(&self) -> Option<Duration> {
        self.visibility_timeout_ms.map(Duration::from_millis)
    }

    /// The directive that the worker of this job gets: `test_directive` of `metadata`, which OJS's conformance suites set.
    pub(crate) fn directive(&self) -> Option<&str> {
        let given = self.metadata.as_ref()?.get("test_directive")?.as_str()?;
        ["quiet", "terminate"].contains(&given).then_some(given)
    }
}
