//! The answer of a wait for a job's result.

use serde::de::DeserializeOwned;

use crate::error::Result;
use crate::words::job::JobRow;

/// The answer of a wait for a job's result: [`Client::wait`](crate::Client::wait) and
/// [`Insert::wait`](crate::Insert::wait).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Waited {
    /// The job is final. Its row has the state, the output and the errors. A job that was replaced is `cancelled`, and
    /// [`JobRow::replaced_by`] names its successor.
    Final(Box<JobRow>),
    /// No job has the id. It was deleted, or its insert was rolled back or is not committed yet. Its outcome is unknown.
    Gone,
    /// The job was not final when the time was over. It goes on.
    TimedOut,
}

impl Waited {
    /// The final row. `None`: the job is gone, or the time was over.
    #[must_use]
    pub fn job(&self) -> Option<&JobRow> {
        match self {
            Self::Final(job) => Some(job),
            Self::Gone | Self::TimedOut => None,
        }
    }

    /// Reads the output of a job that completed. `None`: it did not complete, or completed without an output.
    ///
    /// # Errors
    ///
    /// As for [`JobRow::output_as`].
    pub fn output<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.job().map_or(Ok(None), JobRow::output_as)
    }
}
