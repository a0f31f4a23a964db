//! The parents of a job: jobs of the same call, or ids.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uniqueue_policy::words;

use crate::error::{Error, Result};
use crate::words::ident::{JobId, Kind};
use crate::words::state::JobState;

words! {
    member "condition";

    /// How a parent has to end for its child to run.
    #[non_exhaustive]
    pub enum AfterCondition {
        /// The parent completes. If the parent is cancelled or discarded, the child is cancelled.
        Completed = "completed",
        /// The parent ends, in any final state.
        Final = "final",
        /// At least one parent with this condition is cancelled or discarded. If all of them complete, the child is cancelled.
        Failed = "failed",
    }
}

/// A parent of a job.
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

/// A number that identifies a job within its call. It is made when a child names the job as its parent.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallMark(OnceLock<u64>);

impl CallMark {
    /// The mark, if a child names this job.
    pub(crate) fn get(&self) -> Option<u64> {
        self.0.get().copied()
    }

    /// The mark. The first child that names this job makes it.
    pub(crate) fn get_or_make(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        *self.0.get_or_init(|| NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A parent of a job, as [`Client::parents`](crate::Client::parents) and
/// [`AnyJob::parents`](crate::AnyJob::parents) list it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobParent {
    /// Its id. If another job replaced the parent, the id of the successor.
    pub id: JobId,
    /// Its kind. `None`: it is deleted.
    pub kind: Option<Kind>,
    /// Its state now. `None`: it is deleted.
    pub state: Option<JobState>,
    /// How it has to end.
    pub condition: AfterCondition,
    /// The final state of the parent that counts for the child. `None`: the child still waits for the parent.
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
