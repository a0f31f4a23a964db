//! Batch workers: the trait and its function form.

use super::running_job::RunningJob;
use super::state::Needs;
use crate::words::job::Job;
use crate::words::outcome::{BoxError, IntoResult, Outcome, type_of};
use crate::words::retry::RetryPolicy;

/// The results of a batch, in the order of its jobs.
pub type BatchResults = Vec<Result<Outcome, BoxError>>;

/// Works several jobs of the kind `J` in one call, such as one request to a service that takes a hundred records.
///
/// Any async function of a `Vec` of [`RunningJob`] is a batch worker. It returns `()` or a `Vec` with a result for each job,
/// in the order of the jobs, or a `Result` of either. An outer `Err` is the error of each job.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// use std::time::Duration;
/// use uniqueue::{BoxError, Client, Job, JobError, Runner, RunningJob, WorkerOptions};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "contact.export")]
/// struct Export {
///     email: String,
/// }
///
/// async fn export(jobs: Vec<RunningJob<Export>>) -> Vec<Result<(), JobError>> {
///     // One request for all of them.
///     let is_valid = |job: &RunningJob<Export>| job.args.email.contains('@');
///     let invalid = || JobError::new("not an address").code("invalid_email").permanent();
///     jobs.iter().map(|job| if is_valid(job) { Ok(()) } else { Err(invalid()) }).collect()
/// }
///
/// # fn build(client: Client) -> Runner {
/// let options = WorkerOptions::new().batch_size(100).batch_wait(Duration::from_millis(200));
/// Runner::new(client).queue("default", 200).batch_worker(export, options)
/// # }
/// ```
///
/// Each job has its own outcome, attempt and retries. A job takes one slot of its queue, so a queue needs as many slots as the
/// batch has jobs. A panic fails each job of the batch. A job that is cancelled, or that runs out of time, leaves its batch,
/// and the other jobs go on. The work runs in a task of its own, in the span of its first job, without the task-locals of a
/// middleware. The task is aborted when the last of its jobs has ended, and is not awaited: code that blocks a thread may go on
/// after that. A suspect, which may have killed its process, is worked alone.
pub trait BatchWorker<J: Job>: Send + Sync + 'static {
    /// Works one or more jobs. Returns a result for each job, in the order of the jobs. With any other number of results no result
    /// counts, and each job has failed.
    fn work(&self, jobs: Vec<RunningJob<J>>) -> impl Future<Output = Result<BatchResults, BoxError>> + Send;

    /// When failed jobs of this kind try again. Default: the runner's policy.
    fn retry_policy(&self) -> Option<RetryPolicy> {
        None
    }

    /// The values that the runner must have. A runner without them does not start. Default: none.
    fn needs(&self) -> Needs {
        Needs::new()
    }

    /// The type of its errors, which are stored with it. A function tells it by its signature.
    #[doc(hidden)]
    fn error_type(&self) -> Option<&'static str> {
        None
    }
}

impl<J, F, R> BatchWorker<J> for F
where
    J: Job,
    F: Fn(Vec<RunningJob<J>>) -> R + Send + Sync + 'static,
    R: Future<Output: IntoResults> + Send,
{
    async fn work(&self, jobs: Vec<RunningJob<J>>) -> Result<BatchResults, BoxError> {
        let count = jobs.len();
        self(jobs).await.into_results(count)
    }

    fn error_type(&self) -> Option<&'static str> {
        <R::Output as IntoResults>::error_type()
    }
}

/// The return types of a batch worker function: `()`, a `Vec` of a worker function's return type, or a `Result` of either.
pub trait IntoResults {
    /// The results of `jobs` jobs.
    ///
    /// # Errors
    ///
    /// The worker's error, which fails each of the jobs.
    fn into_results(self, jobs: usize) -> Result<BatchResults, BoxError>;

    /// The type of the worker's error, where the signature tells it.
    #[doc(hidden)]
    #[must_use]
    fn error_type() -> Option<&'static str>
    where
        Self: Sized,
    {
        None
    }
}

impl IntoResults for () {
    fn into_results(self, jobs: usize) -> Result<BatchResults, BoxError> {
        Ok((0..jobs).map(|_| Ok(Outcome::complete())).collect())
    }
}

impl<R: IntoResult> IntoResults for Vec<R> {
    fn into_results(self, _jobs: usize) -> Result<BatchResults, BoxError> {
        Ok(self.into_iter().map(IntoResult::into_result).collect())
    }

    fn error_type() -> Option<&'static str> {
        R::error_type()
    }
}

impl<T: IntoResults, E: Into<BoxError>> IntoResults for Result<T, E> {
    fn into_results(self, jobs: usize) -> Result<BatchResults, BoxError> {
        self.map_err(Into::into)?.into_results(jobs)
    }

    fn error_type() -> Option<&'static str> {
        T::error_type().or_else(type_of::<E>)
    }
}
