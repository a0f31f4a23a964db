//! Whether an insert was a duplicate, and of which job.

use crate::error::{Error, Result};
use crate::ident::JobId;
use crate::job::{Inserted, JobRow};

/// The outcome of an insert: [`Inserted`], its `Result`, or the [`Error`] under `reject`.
/// For [`assert_duplicate!`](crate::assert_duplicate).
pub trait InsertOutcome {
    /// The job that holds the key. `Err`: a text that says what happened instead.
    ///
    /// # Errors
    ///
    /// When the job was inserted, or the insert failed in another way.
    fn holder(&self) -> Result<JobId, String>;
}

impl InsertOutcome for Inserted {
    fn holder(&self) -> Result<JobId, String> {
        if self.duplicate {
            return Ok(self.job.id);
        }
        let key = match &self.job.unique_key {
            Some(key) => format!("its unique key: {key:?}"),
            None => "it has no unique key".to_owned(),
        };
        Err(format!("job {} of kind {} was inserted; {key}", self.job.id, self.job.kind))
    }
}

impl InsertOutcome for Error {
    fn holder(&self) -> Result<JobId, String> {
        match self.rejections() {
            [one, ..] => Ok(one.holder),
            [] => Err(format!("the insert failed: {self}")),
        }
    }
}

impl<T: InsertOutcome, E: InsertOutcome> InsertOutcome for std::result::Result<T, E> {
    fn holder(&self) -> Result<JobId, String> {
        match self {
            Ok(outcome) => outcome.holder(),
            Err(error) => error.holder(),
        }
    }
}

impl<T: InsertOutcome + ?Sized> InsertOutcome for &T {
    fn holder(&self) -> Result<JobId, String> {
        (**self).holder()
    }
}

/// One job: its [`JobId`], its [`JobRow`], or the result of its insert.
pub trait AsJobId {
    /// The job's id.
    fn job_id(&self) -> JobId;
}

impl AsJobId for JobId {
    fn job_id(&self) -> JobId {
        *self
    }
}

impl AsJobId for JobRow {
    fn job_id(&self) -> JobId {
        self.id
    }
}

impl AsJobId for Inserted {
    fn job_id(&self) -> JobId {
        self.job.id
    }
}

impl<T: AsJobId + ?Sized> AsJobId for &T {
    fn job_id(&self) -> JobId {
        (**self).job_id()
    }
}

/// Checks that an insert was a duplicate, and of the given job if there is one.
///
/// # Errors
///
/// A text that says what happened instead.
#[doc(hidden)]
pub fn check_duplicate(outcome: &dyn InsertOutcome, of: Option<&dyn AsJobId>) -> Result<JobId, String> {
    let holder = outcome.holder().map_err(|instead| format!("not a duplicate: {instead}"))?;
    match of.map(AsJobId::job_id) {
        Some(of) if of != holder => Err(format!("a duplicate, but of job {holder} and not of {of}")),
        _ => Ok(holder),
    }
}

/// Checks that an insert made a new job.
///
/// # Errors
///
/// The holder, or the insert's error.
#[doc(hidden)]
pub fn check_not_duplicate(outcome: &dyn InsertOutcome) -> Result<(), String> {
    match outcome.holder() {
        Ok(holder) => Err(format!("a duplicate of job {holder}")),
        Err(instead) if instead.starts_with("the insert failed") => Err(instead),
        Err(_) => Ok(()),
    }
}
