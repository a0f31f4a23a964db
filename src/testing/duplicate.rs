//! Whether an insert was a duplicate, and of whom.

use crate::error::{Error, Result};
use crate::ident::JobId;
use crate::job::{Inserted, JobRow};

/// What an insert can answer: [`Inserted`], its `Result`, or the [`Error`] of one under `reject`.
/// For [`assert_duplicate!`](crate::assert_duplicate).
pub trait InsertAnswer {
    /// The job that was there first. `Err`: what happened instead, in words.
    ///
    /// # Errors
    ///
    /// When the job was inserted, or the insert failed in another way.
    fn holder(&self) -> Result<JobId, String>;
}

impl InsertAnswer for Inserted {
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

impl InsertAnswer for Error {
    fn holder(&self) -> Result<JobId, String> {
        match self.rejections() {
            [one, ..] => Ok(one.holder),
            [] => Err(format!("the insert failed: {self}")),
        }
    }
}

impl<T: InsertAnswer, E: InsertAnswer> InsertAnswer for std::result::Result<T, E> {
    fn holder(&self) -> Result<JobId, String> {
        match self {
            Ok(answer) => answer.holder(),
            Err(error) => error.holder(),
        }
    }
}

impl<T: InsertAnswer + ?Sized> InsertAnswer for &T {
    fn holder(&self) -> Result<JobId, String> {
        (**self).holder()
    }
}

/// What names one job: a [`JobId`], a [`JobRow`], or what an insert answered.
pub trait NamesJob {
    /// The job's id.
    fn job_id(&self) -> JobId;
}

impl NamesJob for JobId {
    fn job_id(&self) -> JobId {
        *self
    }
}

impl NamesJob for JobRow {
    fn job_id(&self) -> JobId {
        self.id
    }
}

impl NamesJob for Inserted {
    fn job_id(&self) -> JobId {
        self.job.id
    }
}

impl<T: NamesJob + ?Sized> NamesJob for &T {
    fn job_id(&self) -> JobId {
        (**self).job_id()
    }
}

/// Checks that an insert was a duplicate, of a given job where there is one.
///
/// # Errors
///
/// What happened instead, in words.
#[doc(hidden)]
pub fn check_duplicate(answer: &dyn InsertAnswer, of: Option<&dyn NamesJob>) -> Result<JobId, String> {
    let holder = answer.holder().map_err(|instead| format!("not a duplicate: {instead}"))?;
    match of.map(NamesJob::job_id) {
        Some(of) if of != holder => Err(format!("a duplicate, but of job {holder} and not of {of}")),
        _ => Ok(holder),
    }
}

/// Checks that an insert made a new job.
///
/// # Errors
///
/// Whose duplicate it is, or the insert's error.
#[doc(hidden)]
pub fn check_not_duplicate(answer: &dyn InsertAnswer) -> Result<(), String> {
    match answer.holder() {
        Ok(holder) => Err(format!("a duplicate of job {holder}")),
        Err(instead) if instead.starts_with("the insert failed") => Err(instead),
        Err(_) => Ok(()),
    }
}
