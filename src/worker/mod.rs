//! Workers: what runs jobs of one kind.

mod any_job;
mod middleware;
mod options;
mod progress;
mod running_job;
mod state;
mod stop;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use self::any_job::AnyJob;
pub(crate) use self::middleware::AnyMiddleware;
pub use self::middleware::{Middleware, Next};
pub use self::options::WorkerOptions;
pub use self::progress::Progress;
pub(crate) use self::progress::Reports;
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
/// A type that implements the trait can carry what its jobs need, and say how long they may run and
/// when they try again. For a function, [`WorkerOptions`] say so.
///
/// An `Err` is a failed attempt: the job tries again after the retry policy's wait, and is
/// discarded when it has no attempt left, or at once for a [`Permanent`](crate::Permanent) error. A
/// panic counts as an error, and so does running longer than the timeout. A job may run more than once (a
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

    /// How long this job may run, counted from the start of its work. Default: the runner's
    /// [`timeout`](crate::Runner::timeout). `Duration::MAX`: as long as it likes.
    ///
    /// When the time is over the work is told to stop ([`StopReason::TimedOut`]), and dropped at its
    /// next `.await` after the runner's [`stop_grace`](crate::Runner::stop_grace). The attempt then
    /// failed, with an error that names the limit. An `Ok` within the grace still counts: what was
    /// done should not be done twice.
    fn timeout(&self, job: &RunningJob<J>) -> Option<Duration> {
        let _ = job;
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
}

/// An attempt on its way.
pub(crate) type Work<'a> = Pin<Box<dyn Future<Output = Result<Outcome, BoxError>> + Send + 'a>>;

/// An attempt about to begin. Nothing of the work itself is done yet.
pub(crate) struct Begun {
    pub(crate) work: Work<'static>,
    /// How long it may run. `None`: as long as the runner says.
    pub(crate) timeout: Option<Duration>,
}

/// A worker whose kind is known by name only.
pub(crate) trait AnyWorker: Send + Sync {
    /// Reads the job. One that cannot be read fails when it is worked.
    fn begin(self: Arc<Self>, attempt: Arc<Attempt>) -> Begun;
    fn retry_policy(&self) -> Option<RetryPolicy>;
    fn needs(&self) -> Needs;
}

struct Typed<J, W> {
    worker: W,
    options: WorkerOptions,
    kind: std::marker::PhantomData<fn() -> J>,
}

impl<J: Job, W: Worker<J>> AnyWorker for Typed<J, W> {
    fn begin(self: Arc<Self>, attempt: Arc<Attempt>) -> Begun {
        match RunningJob::read(attempt) {
            Ok(job) => {
                let timeout = self.options.timeout.or_else(|| self.worker.timeout(&job));
                Begun { work: Box::pin(async move { self.worker.work(job).await }), timeout }
            }
            Err(error) => Begun { work: Box::pin(std::future::ready(Err(error))), timeout: None },
        }
    }

    fn retry_policy(&self) -> Option<RetryPolicy> {
        self.options.retry_policy.or_else(|| self.worker.retry_policy())
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
    pub(crate) fn add<J: Job>(&mut self, worker: impl Worker<J>, options: WorkerOptions) {
        let typed = Typed { worker, options, kind: std::marker::PhantomData };
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
