//! What a job runs after: its parents, named by the jobs of the same call or by ids.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::ident::{JobId, Kind, QueueName};
use crate::state::JobState;

/// How a parent has to end for its child to run.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum AfterCondition {
    /// It completes. The child is cancelled when it is cancelled or discarded.
    Completed,
    /// However it ends.
    Final,
    /// It is cancelled or discarded, or another parent with this condition is. The child is cancelled when all of them
    /// complete.
    Failed,
}

impl AfterCondition {
    /// The word that SQL and JSON have for it: `completed`, `final` or `failed`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Final => "final",
            Self::Failed => "failed",
        }
    }

    /// Reads a condition as the database has it.
    pub(crate) fn from_stored(text: &str) -> Self {
        match text {
            "final" => Self::Final,
            "failed" => Self::Failed,
            _ => Self::Completed,
        }
    }
}

impl fmt::Display for AfterCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for AfterCondition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A job that another one runs after.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Parent {
    /// A job of the same call.
    OfCall(u64),
    Stored(JobId),
}

/// The jobs that [`NewJob::after`] takes: one, or many in a slice, an array or a vector. Each is a [`NewJob`] of the same
/// call, a [`JobId`], an [`Inserted`] or a [`JobRow`].
///
/// [`NewJob`]: crate::NewJob
/// [`NewJob::after`]: crate::NewJob::after
/// [`Inserted`]: crate::Inserted
/// [`JobRow`]: crate::JobRow
#[derive(Clone, Debug, Default)]
pub struct Parents(Vec<Parent>);

impl Parents {
    pub(crate) const fn new(parents: Vec<Parent>) -> Self {
        Self(parents)
    }

    pub(crate) fn into_vec(self) -> Vec<Parent> {
        self.0
    }
}

/// What tells the jobs of a call apart, made when another job names the job as its parent.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallMark(OnceLock<u64>);

impl CallMark {
    /// The mark, if another job names this one.
    pub(crate) fn get(&self) -> Option<u64> {
        self.0.get().copied()
    }

    /// The mark, made where no other job named this one before.
    pub(crate) fn get_or_make(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        *self.0.get_or_init(|| NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A job that another one runs after, as [`Client::parents`](crate::Client::parents) and
/// [`RunningJob::parents`](crate::RunningJob::parents) list it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobParent {
    /// Its id. Of a job that was replaced, the id of its successor.
    pub id: JobId,
    /// Its kind. `None`: it is deleted.
    pub kind: Option<Kind>,
    /// Its state now. `None`: it is deleted.
    pub state: Option<JobState>,
    /// How it has to end.
    pub condition: AfterCondition,
    /// How it had ended when the child was told. `None`: the child still waits for it.
    pub outcome: Option<JobState>,
    /// Its output.
    pub output: Option<Value>,
}

impl JobParent {
    /// Reads the output as a typed value. `None`: it has none.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidJson`] when the stored output does not fit the type.
    pub fn output_as<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let Some(output) = &self.output else { return Ok(None) };
        T::deserialize(output).map(Some).map_err(|error| Error::InvalidJson {
            what: "output",
            kind: self.kind.as_ref().map(ToString::to_string).unwrap_or_default(),
            problem: error.to_string(),
        })
    }
}

/// A job that runs after another one, as [`Client::children`](crate::Client::children) lists it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobChild {
    /// Its id.
    pub id: JobId,
    /// Its kind.
    pub kind: Kind,
    /// Its queue.
    pub queue: QueueName,
    /// Its state now.
    pub state: JobState,
    /// How the parent has to end.
    pub condition: AfterCondition,
    /// How the parent had ended when the child was told. `None`: the child still waits for it.
    pub outcome: Option<JobState>,
}
