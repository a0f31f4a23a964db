//! Workers: what runs jobs of one kind.

mod any_job;
mod middleware;
mod running_job;
mod state;
mod stop;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use self::any_job::AnyJob;
pub(crate) use self::middleware::AnyMiddleware;
pub use self::middleware::{Middleware, Next};
pub(crate) use self::running_job::Attempt;
pub use self::running_job::RunningJob;
pub use self::state::Needs;
pub(crate) use self::state::States;
pub(crate) use self::stop::Stop;
pub use self::stop::StopReason;

use self::middleware::Layered;
use crate::job::Job;
use crate::outcome::{BoxError, IntoResult, Outcome};
use crate::retry::RetryPolicy;

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
/// A type that implements the trait can carry what its jobs need, and a retry policy of its own.
///
/// An `Err` is a failed attempt: the job tries again after the retry policy's wait, and is
/// discarded when it has no attempt left. A panic counts the same. A job may run more than once (a
/// machine can die between the work and its record), so make the work repeatable, or use
/// [`RunningJob::complete_in`].
pub trait Worker<J: Job>: Send + Sync + 'static {
    /// Works one job.
    fn work(&self, job: RunningJob<J>) -> impl Future<Output = Result<Outcome, BoxError>> + Send;

    /// When failed jobs of this kind try again. Default: the runner's policy.
    fn retry_policy(&self) -> Option<RetryPolicy> {
        None
    }

    /// What the runner must have been given, so that one without it does not start. Default: nothing.
    fn needs(&self) -> Needs {
        Needs::new()
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
}

/// An attempt on its way.
pub(crate) type Work<'a> = Pin<Box<dyn Future<Output = Result<Outcome, BoxError>> + Send + 'a>>;

/// A worker whose kind is known by name only.
pub(crate) trait AnyWorker: Send + Sync {
    fn work(&self, attempt: Arc<Attempt>) -> Work<'_>;
    fn retry_policy(&self) -> Option<RetryPolicy>;
    fn needs(&self) -> Needs;
}

struct Typed<J, W> {
    worker: W,
    kind: std::marker::PhantomData<fn() -> J>,
}

impl<J: Job, W: Worker<J>> AnyWorker for Typed<J, W> {
    fn work(&self, attempt: Arc<Attempt>) -> Work<'_> {
        Box::pin(async move {
            let job = RunningJob::read(attempt)?;
            self.worker.work(job).await
        })
    }

    fn retry_policy(&self) -> Option<RetryPolicy> {
        self.worker.retry_policy()
    }

    fn needs(&self) -> Needs {
        self.worker.needs()
    }
}

/// The workers of a runner, by kind.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    workers: HashMap<&'static str, Arc<dyn AnyWorker>>,
    doubled: Option<&'static str>,
}

impl Registry {
    pub(crate) fn add<J: Job>(&mut self, worker: impl Worker<J>) {
        let typed = Typed { worker, kind: std::marker::PhantomData };
        if self.workers.insert(J::KIND, Arc::new(typed)).is_some() {
            self.doubled = Some(J::KIND);
        }
    }

    /// The same workers with middleware around each, the outermost first.
    pub(crate) fn layered(&self, middleware: &[Arc<dyn AnyMiddleware>]) -> Self {
        if middleware.is_empty() {
            return self.clone();
        }
        let middleware: Arc<[_]> = middleware.into();
        let layered = |worker: &Arc<dyn AnyWorker>| -> Arc<dyn AnyWorker> {
            Arc::new(Layered { middleware: Arc::clone(&middleware), worker: Arc::clone(worker) })
        };
        let workers = self.workers.iter().map(|(kind, worker)| (*kind, layered(worker))).collect();
        Self { workers, doubled: self.doubled }
    }

    /// The first kind whose worker needs what is not there, and what that is.
    pub(crate) fn lacks(&self, states: &States) -> Option<(&'static str, &'static str)> {
        self.workers.iter().filter_map(|(kind, worker)| Some((*kind, states.lacks(&worker.needs())?))).min()
    }

    pub(crate) fn worker(&self, kind: &str) -> Option<&Arc<dyn AnyWorker>> {
        self.workers.get(kind)
    }

    /// The kinds that this runner knows. Others are left to others.
    pub(crate) fn kinds(&self) -> Vec<String> {
        let mut kinds: Vec<_> = self.workers.keys().map(ToString::to_string).collect();
        kinds.sort_unstable();
        kinds
    }

    /// The kind that two workers were given for.
    pub(crate) const fn doubled(&self) -> Option<&'static str> {
        self.doubled
    }
}
