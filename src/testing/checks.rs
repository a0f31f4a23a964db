//! What the assertions check: whether an insert was a duplicate, and whether a rate or a hold lets no job start.

use std::time::Duration;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::words::ident::{JobId, QueueName};
use crate::words::job::{Inserted, JobRow};

/// The outcome of an insert: [`Inserted`], its `Result`, or the [`Error`] under `reject`.
/// For [`assert_duplicate!`](crate::assert_duplicate).
pub trait InsertOutcome {
    /// The job that holds the key. `Err`: a text that says what happened instead.
    ///
    /// # Errors
    ///
    /// When the job was inserted, or the insert failed in another way.
    fn holder(&self) -> Result<JobId, String>;

    /// The database's answer, where there is one. Default: none, as for an error.
    fn answer(&self) -> Option<&Inserted> {
        None
    }
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

    fn answer(&self) -> Option<&Inserted> {
        Some(self)
    }
}

impl InsertOutcome for Error {
    fn holder(&self) -> Result<JobId, String> {
        match self.rejections() {
            [one, ..] => one.holder.ok_or_else(|| format!("the insert failed: {self}")),
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

    fn answer(&self) -> Option<&Inserted> {
        self.as_ref().ok()?.answer()
    }
}

impl<T: InsertOutcome + ?Sized> InsertOutcome for &T {
    fn holder(&self) -> Result<JobId, String> {
        (**self).holder()
    }

    fn answer(&self) -> Option<&Inserted> {
        (**self).answer()
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

/// Checks that an insert was covered by a waiting job, and by the given one if there is one.
///
/// # Errors
///
/// A text that says what happened instead.
#[doc(hidden)]
pub fn check_covered(outcome: &dyn InsertOutcome, by: Option<&dyn AsJobId>) -> Result<JobId, String> {
    let holder = check_duplicate(outcome, by)?;
    match outcome.answer() {
        Some(answer) if answer.covered => Ok(holder),
        _ => Err(format!("not covered: a duplicate of job {holder} without run_again or one_at_a_time")),
    }
}

/// Checks that an insert updated the holder of its key, and the given job if there is one.
///
/// # Errors
///
/// A text that says what happened instead.
#[doc(hidden)]
pub fn check_updated(outcome: &dyn InsertOutcome, of: Option<&dyn AsJobId>) -> Result<JobId, String> {
    let holder = check_duplicate(outcome, of)?;
    match outcome.answer() {
        Some(answer) if answer.updated => Ok(holder),
        _ => Err(format!("no update: a duplicate of job {holder}, which was left as it is")),
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

/// For [`assert_held_back!`](crate::assert_held_back): how long a queue, or a group of it, starts no job. `Err`: a text
/// that says what is so instead.
#[doc(hidden)]
pub async fn check_held_back(source: &Client, queue: &str, group: Option<&str>) -> Result<Duration, String> {
    let what = match group {
        Some(group) => format!("group {group} of queue {queue}"),
        None => format!("queue {queue}"),
    };
    let failed = |error: crate::Error| format!("{what} cannot be read: {error}");
    let name = QueueName::new(queue).map_err(failed)?;
    let mut connection = source.connection().await.map_err(failed)?;
    let next_in = source.store(&mut connection).held_back(&name, group).await.map_err(failed)?;
    if let Some(next_in) = next_in {
        return Ok(next_in);
    }
    drop(connection);
    let settings = source.queue(queue).settings().await.map_err(failed)?;
    let rate = settings.rate.map_or_else(|| "no rate".to_owned(), |rate| format!("a rate of {rate}"));
    let group_rate = settings.group_rate.map(|rate| format!(", and one of {rate} for each group")).unwrap_or_default();
    Err(format!("{what} is not held back: a job may start now. The queue has {rate}{group_rate}"))
}
