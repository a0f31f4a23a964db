//! Middleware: code that runs around every attempt of a runner.

use std::future::Future;
use std::sync::Arc;

use super::any_worker::WorkFuture;
use super::attempt::Attempt;
use super::running_job::AnyJob;
use super::state::Needs;
use crate::words::outcome::{BoxError, IntoResult, Outcome};

/// Runs around every attempt, of every kind: to measure, to log, to set up resources, to postpone a
/// job. Given with [`Runner::middleware`](crate::Runner::middleware).
///
/// Any async function of an [`AnyJob`] and a [`Next`] is a middleware:
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use std::time::{Duration, Instant};
/// # use uniqueue::{Job, RunningJob};
/// use uniqueue::{AnyJob, BoxError, Next, Outcome};
///
/// async fn time(job: AnyJob, next: Next) -> Result<Outcome, BoxError> {
///     let started = Instant::now();
///     let result = next.run().await;
///     println!("{} took {:?}", job.kind(), started.elapsed());
///     result
/// }
///
/// /// Does not run `next`, so the job is not worked: it comes back in a minute.
/// async fn only_by_day(_: AnyJob, next: Next) -> Result<Outcome, BoxError> {
/// #   let is_night = || false;
///     if is_night() { Ok(Outcome::snooze(Duration::from_secs(60))) } else { next.run().await }
/// }
/// # fn is_middleware(_: impl uniqueue::Middleware) {}
/// # is_middleware(time);
/// # is_middleware(only_by_day);
/// ```
///
/// A type that implements the trait can hold values of its own.
///
/// The result of a middleware is the attempt's result, as if the worker had returned it: an `Err` is a failed
/// attempt. It runs inside the attempt, so a stop, a timeout or a panic of the worker ends it where it awaits
/// [`Next::run`]. Put code that must run even then into a `Drop`.
pub trait Middleware: Send + Sync + 'static {
    /// Runs around one attempt.
    fn call(&self, job: AnyJob, next: Next) -> impl Future<Output = Result<Outcome, BoxError>> + Send;

    /// The values that the runner must have. A runner without them does not start. Default: none.
    fn needs(&self) -> Needs {
        Needs::new()
    }
}

impl<F, R> Middleware for F
where
    F: Fn(AnyJob, Next) -> R + Send + Sync + 'static,
    R: Future<Output: IntoResult> + Send,
{
    async fn call(&self, job: AnyJob, next: Next) -> Result<Outcome, BoxError> {
        self(job, next).await.into_result()
    }
}

/// The rest of an attempt: the middleware further in, then the worker.
#[must_use = "the job is worked only if this is run"]
pub struct Next {
    middleware: Arc<[Arc<dyn AnyMiddleware>]>,
    attempt: Arc<Attempt>,
    place: usize,
    work: WorkFuture<'static>,
}

impl Next {
    /// The work of an attempt with middleware around it, the outermost first.
    pub(crate) fn around(
        middleware: &Arc<[Arc<dyn AnyMiddleware>]>,
        attempt: &Arc<Attempt>,
        work: WorkFuture<'static>,
    ) -> WorkFuture<'static> {
        if middleware.is_empty() {
            return work;
        }
        let (middleware, attempt) = (Arc::clone(middleware), Arc::clone(attempt));
        Box::pin(Self { middleware, attempt, place: 0, work }.run())
    }

    /// Runs the rest and returns its result.
    ///
    /// # Errors
    ///
    /// The error of the worker, or of a middleware further in.
    pub async fn run(self) -> Result<Outcome, BoxError> {
        let Self { middleware, attempt, place, work } = self;
        match middleware.get(place) {
            Some(outer) => {
                let middleware = Arc::clone(&middleware);
                let next = Self { middleware, attempt: Arc::clone(&attempt), place: place + 1, work };
                outer.call(AnyJob::new(attempt), next).await
            }
            None => work.await,
        }
    }
}

impl std::fmt::Debug for Next {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Next").field("job", &self.attempt.row.id).field("place", &self.place).finish_non_exhaustive()
    }
}

/// A middleware of any type.
pub(crate) trait AnyMiddleware: Send + Sync {
    fn call(&self, job: AnyJob, next: Next) -> WorkFuture<'_>;
    fn needs(&self) -> Needs;
}

impl<M: Middleware> AnyMiddleware for M {
    fn call(&self, job: AnyJob, next: Next) -> WorkFuture<'_> {
        Box::pin(Middleware::call(self, job, next))
    }

    fn needs(&self) -> Needs {
        Middleware::needs(self)
    }
}
