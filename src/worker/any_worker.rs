//! A worker of any kind, as a runner calls it.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::Worker;
use super::attempt::Attempt;
use super::options::WorkerOptions;
use super::running_job::{AnyJob, RunningJob};
use super::state::Needs;
use crate::words::job::Job;
use crate::words::outcome::{BoxError, IntoResult, Outcome};
use crate::words::retry::RetryPolicy;

/// The future of an attempt.
pub(crate) type WorkFuture<'a> = Pin<Box<dyn Future<Output = Result<Outcome, BoxError>> + Send + 'a>>;

/// An attempt that has not been polled yet.
pub(crate) struct Begun {
    pub(crate) work: WorkFuture<'static>,
    /// How long it may run. `None`: the runner's timeout.
    pub(crate) timeout: Option<Duration>,
    /// The type of its error, as the worker's signature says.
    pub(crate) error_type: Option<&'static str>,
}

/// A worker of any type.
pub(crate) trait AnyWorker: Send + Sync {
    /// Reads the job's args. If they do not fit, the future fails.
    fn begin(self: Arc<Self>, attempt: Arc<Attempt>) -> Begun;
    fn retry_policy(&self) -> Option<RetryPolicy>;
    fn needs(&self) -> Needs;

    /// How many jobs it works in one call.
    #[cfg(feature = "testing")]
    fn most(&self) -> usize {
        1
    }

    /// Works the jobs that wait for more jobs of their batch: no more jobs come.
    #[cfg(feature = "testing")]
    fn close_batch(&self) {}
}

/// A worker and its options, of one kind.
pub(super) struct Typed<J, W> {
    pub(super) worker: W,
    pub(super) options: WorkerOptions,
    pub(super) kind: PhantomData<fn() -> J>,
}

impl<J: Job, W: Worker<J>> AnyWorker for Typed<J, W> {
    fn begin(self: Arc<Self>, attempt: Arc<Attempt>) -> Begun {
        match RunningJob::read(attempt) {
            Ok(job) => {
                let timeout = self.options.timeout.or_else(|| self.worker.timeout(&job));
                let error_type = self.worker.error_type();
                Begun { work: Box::pin(async move { self.worker.work(job).await }), timeout, error_type }
            }
            Err(error) => Begun { work: Box::pin(std::future::ready(Err(error))), timeout: None, error_type: None },
        }
    }

    fn retry_policy(&self) -> Option<RetryPolicy> {
        self.options.retry_policy.or_else(|| self.worker.retry_policy())
    }

    fn needs(&self) -> Needs {
        self.worker.needs()
    }
}

/// A function that works jobs of any kind.
pub(super) struct Untyped<F> {
    pub(super) work: F,
    pub(super) options: WorkerOptions,
}

impl<F, R> AnyWorker for Untyped<F>
where
    F: Fn(AnyJob) -> R + Send + Sync + 'static,
    R: Future<Output: IntoResult> + Send + 'static,
{
    fn begin(self: Arc<Self>, attempt: Arc<Attempt>) -> Begun {
        let job = AnyJob::new(attempt);
        // Called when the work begins, as a typed worker is.
        let (timeout, error_type) = (self.options.timeout, <R::Output as IntoResult>::error_type());
        Begun { work: Box::pin(async move { (self.work)(job).await.into_result() }), timeout, error_type }
    }

    fn retry_policy(&self) -> Option<RetryPolicy> {
        self.options.retry_policy
    }

    fn needs(&self) -> Needs {
        Needs::new()
    }
}
