//! Workers: the code that runs jobs, one for each kind.

mod any_worker;
mod attempt;
mod batch;
mod batch_worker;
mod middleware;
mod options;
pub(crate) mod panics;
mod progress;
mod registry;
mod running_job;
mod state;
mod stop;

use std::future::Future;
use std::time::Duration;

#[cfg(feature = "testing")]
pub(crate) use self::any_worker::WorkFuture;
pub(crate) use self::attempt::Attempt;
#[cfg(feature = "testing")]
pub(crate) use self::batch::one_for_each;
pub use self::batch_worker::{BatchResults, BatchWorker, IntoResults};
pub(crate) use self::middleware::AnyMiddleware;
pub use self::middleware::{Middleware, Next};
pub use self::options::WorkerOptions;
pub use self::progress::Progress;
pub(crate) use self::progress::Reports;
pub(crate) use self::registry::Registry;
pub use self::running_job::{AnyJob, RunningJob};
pub use self::state::Needs;
pub(crate) use self::state::States;
pub(crate) use self::stop::Stop;
pub use self::stop::StopReason;

use crate::words::job::Job;
use crate::words::outcome::{BoxError, IntoResult, Outcome};
use crate::words::retry::RetryPolicy;

/// Runs jobs of the kind `J`.
///
/// Any async function of a [`RunningJob`] is a worker:
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// use uniqueue::{Job, RunningJob};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "email.send")]
/// struct SendEmail {
///     to: String,
/// }
///
/// async fn send_email(job: RunningJob<SendEmail>) -> Result<(), std::io::Error> {
///     println!("to {}, attempt {}", job.args.to, job.attempt());
///     Ok(())
/// }
/// # fn is_worker<J: Job>(_: impl uniqueue::Worker<J>) {}
/// # is_worker(send_email);
/// ```
///
/// A type that implements the trait can hold values for its jobs, and set their timeout and retry policy. For a
/// function, [`WorkerOptions`] set them.
///
/// An `Err` is a failed attempt: the job tries again after the retry policy's wait. It is discarded when no attempt is
/// left, or at once for a [permanent](crate::JobError::permanent) error. A [`JobError`](crate::JobError) says more of itself.
/// A panic counts as an error, and so does a timeout. A job may run more than once, since a machine can die between
/// the work and the record of its result. So make the work repeatable, or use [`AnyJob::complete_in`].
pub trait Worker<J: Job>: Send + Sync + 'static {
    /// Works one job.
    fn work(&self, job: RunningJob<J>) -> impl Future<Output = Result<Outcome, BoxError>> + Send;

    /// When failed jobs of this kind try again. Default: the runner's policy.
    fn retry_policy(&self) -> Option<RetryPolicy> {
        None
    }

    /// The values that the runner must have. A runner without them does not start. Default: none.
    fn needs(&self) -> Needs {
        Needs::new()
    }

    /// How long this job may run, counted from the start of its work. Default: the runner's
    /// [`timeout`](crate::Runner::timeout). `Duration::MAX`: no limit.
    ///
    /// When the time is over, the work is asked to stop ([`StopReason::TimedOut`]). After the runner's
    /// [`stop_grace`](crate::Runner::stop_grace) it is dropped at its next `.await`. Then the attempt has failed, with an
    /// error that names the limit. An `Ok` within the grace still counts, so that finished work is not repeated.
    fn timeout(&self, job: &RunningJob<J>) -> Option<Duration> {
        let _ = job;
        None
    }

    /// The type of its errors, which are stored with it. A function tells it by its signature.
    #[doc(hidden)]
    fn error_type(&self) -> Option<&'static str> {
        None
    }
}

impl<J, F, R> Worker<J> for F
where
    J: Job,
    F: Fn(RunningJob<J>) -> R + Send + Sync + 'static,
    R: Future<Output: IntoResult> + Send,
{
    async fn work(&self, job: RunningJob<J>) -> Result<Outcome, BoxError> {
        self(job).await.into_result()
    }

    fn error_type(&self) -> Option<&'static str> {
        <R::Output as IntoResult>::error_type()
    }
}
