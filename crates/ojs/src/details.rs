//! The members of a job that uniqueue has no column for. They are one member of the job's meta, which answers leave out.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::shape::Shape;

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
    /// How the results of the jobs that it ran after are nested, where some of them come from a workflow in its workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parents: Option<Vec<Shape>>,
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
