//! Workers that work several jobs in one call.
//!
//! Each job of a batch has a slot and an attempt of its own, so limits, heartbeats, timeouts, cancellation and results
//! work as for single jobs. The jobs of a batch share one task, which sends each attempt its result.
//!
//! ```text
//! first job ──▶ gathering ── full, the time is over, or a stop ──▶ working ──▶ results
//! ```
//!
//! An attempt that ends early leaves its batch, and the task goes on. The task is aborted when the last attempt has left.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use super::any_worker::{AnyWorker, Begun};
use super::attempt::Attempt;
use super::batch_worker::{BatchResults, BatchWorker};
use super::options::WorkerOptions;
use super::panics::catching;
use super::running_job::RunningJob;
use super::state::Needs;
use super::stop::StopReason;
use crate::words::job::Job;
use crate::words::job_error::JobError;
use crate::words::outcome::{BoxError, Outcome};
use crate::words::retry::RetryPolicy;

/// A batch worker and its options, of one kind.
pub(super) struct Batched<J, W> {
    worker: W,
    options: WorkerOptions,
    /// The batch that gathers jobs.
    open: Mutex<Option<Batch<J>>>,
    kind: PhantomData<fn() -> J>,
}

/// A batch, and its task.
struct Batch<J> {
    gathering: Arc<Gathering<J>>,
    task: Arc<AbortOnDropHandle<()>>,
}

impl<J> Clone for Batch<J> {
    fn clone(&self) -> Self {
        Self { gathering: Arc::clone(&self.gathering), task: Arc::clone(&self.task) }
    }
}

/// The jobs of a batch until they are worked.
struct Gathering<J> {
    /// `None`: the work has begun.
    seats: Mutex<Option<Vec<Seat<J>>>>,
    /// Ends the gathering.
    end: Notify,
}

/// A job that waits for its batch, and where its result goes. Its attempt has left when the receiver is gone.
struct Seat<J> {
    job: RunningJob<J>,
    result: oneshot::Sender<Result<Outcome, BoxError>>,
}

impl<J> Gathering<J> {
    fn is_deserted(&self) -> bool {
        lock(&self.seats).as_ref().is_none_or(|seats| seats.iter().all(|seat| seat.result.is_closed()))
    }
}

impl<J: Job, W: BatchWorker<J>> Batched<J, W> {
    pub(super) fn new(worker: W, options: WorkerOptions) -> Self {
        Self { worker, options, open: Mutex::default(), kind: PhantomData }
    }

    /// Waits for the result of a job that joins the batch that gathers, or opens one.
    async fn join(self: Arc<Self>, job: RunningJob<J>, attempt: Arc<Attempt>) -> Result<Outcome, BoxError> {
        let (result, mut received) = oneshot::channel();
        let batch = self.seat(Seat { job, result });
        let ended = |_| BoxError::from("the batch ended without a result");
        tokio::select! {
            biased;
            result = &mut received => return result.map_err(ended)?,
            reason = attempt.stop.requested() => match reason {
                // At a hard stop the batch is worked with the jobs that it has.
                StopReason::Stopping => batch.gathering.end.notify_one(),
                _ if lock(&batch.gathering.seats).is_some() => return Err("stopped while it waited for its batch".into()),
                _ => {}
            }
        }
        received.await.map_err(ended)?
    }

    /// Adds a job to the batch that gathers, or to a new one.
    fn seat(self: &Arc<Self>, seat: Seat<J>) -> Batch<J> {
        let mut open = lock(&self.open);
        // A batch that all its attempts have left ends, so that the job gets the whole wait of a new one.
        open.take_if(|open| open.gathering.is_deserted());
        let batch = open.get_or_insert_with(|| self.begin()).clone();
        let mut seats = lock(&batch.gathering.seats);
        let seats = seats.get_or_insert_default();
        seats.push(seat);
        if seats.iter().filter(|seat| !seat.result.is_closed()).count() >= self.options.batch_size {
            *open = None;
            batch.gathering.end.notify_one();
        }
        batch.clone()
    }

    /// Begins a batch in the span of its first job.
    fn begin(self: &Arc<Self>) -> Batch<J> {
        let gathering = Arc::new(Gathering { seats: Mutex::new(Some(Vec::new())), end: Notify::new() });
        let due = Instant::now() + self.options.batch_wait;
        let work = Arc::clone(self).work_gathered(Arc::clone(&gathering), due);
        let task = Arc::new(AbortOnDropHandle::new(tokio::spawn(work.in_current_span())));
        Batch { gathering, task }
    }

    /// Gathers jobs, works them, and sends each its result.
    async fn work_gathered(self: Arc<Self>, gathering: Arc<Gathering<J>>, due: Instant) {
        tokio::select! {
            () = sleep_until(due) => {}
            () = gathering.end.notified() => {}
        }
        let seats = self.close(&gathering);
        let live = seats.into_iter().filter(|seat| !seat.result.is_closed());
        let (jobs, senders): (Vec<_>, Vec<_>) = live.map(|seat| (seat.job, seat.result)).unzip();
        if jobs.is_empty() {
            return;
        }
        let results = match catching(Box::pin(self.work(jobs))).await {
            Ok(results) => results,
            Err(panic) => Err(JobError::new(panic).code("panicked").into()),
        };
        let results = results
            .map_err(Arc::new)
            .unwrap_or_else(|error| senders.iter().map(|_| Err(SharedError(Arc::clone(&error)).into())).collect());
        for (sender, result) in senders.into_iter().zip(results) {
            // An attempt that has left needs none.
            let _ = sender.send(result);
        }
    }

    /// Takes the jobs of a batch, which none can join any more.
    fn close(&self, gathering: &Arc<Gathering<J>>) -> Vec<Seat<J>> {
        let mut open = lock(&self.open);
        open.take_if(|open| Arc::ptr_eq(&open.gathering, gathering));
        lock(&gathering.seats).take().unwrap_or_default()
    }

    async fn work(&self, jobs: Vec<RunningJob<J>>) -> Result<BatchResults, BoxError> {
        let count = jobs.len();
        one_for_each(self.worker.work(jobs).await?, count)
    }
}

impl<J: Job, W: BatchWorker<J>> AnyWorker for Batched<J, W> {
    fn begin(self: Arc<Self>, attempt: Arc<Attempt>) -> Begun {
        let (timeout, error_type) = (self.options.timeout, self.worker.error_type());
        let is_suspect = attempt.row.crashes > 0;
        let job = match RunningJob::read(Arc::clone(&attempt)) {
            Ok(job) => job,
            Err(error) => return Begun { work: Box::pin(std::future::ready(Err(error))), timeout, error_type: None },
        };
        // A job that may kill its process runs without other jobs in its batch.
        if is_suspect || self.options.batch_size == 1 {
            let work = async move { self.work(vec![job]).await?.remove(0) };
            return Begun { work: Box::pin(work), timeout, error_type };
        }
        Begun { work: Box::pin(self.join(job, attempt)), timeout, error_type }
    }

    fn retry_policy(&self) -> Option<RetryPolicy> {
        self.options.retry_policy.or_else(|| self.worker.retry_policy())
    }

    fn needs(&self) -> Needs {
        self.worker.needs()
    }

    #[cfg(feature = "testing")]
    fn most(&self) -> usize {
        self.options.batch_size
    }

    #[cfg(feature = "testing")]
    fn close_batch(&self) {
        if let Some(batch) = lock(&self.open).take() {
            batch.gathering.end.notify_one();
        }
    }
}

/// The results, where there is one for each job. Any other number does not tell which job a result belongs to, so none counts.
pub(crate) fn one_for_each(results: BatchResults, jobs: usize) -> Result<BatchResults, BoxError> {
    if results.len() == jobs {
        return Ok(results);
    }
    Err(format!("the batch worker returned {} results for {jobs} jobs", results.len()).into())
}

/// One error of several jobs.
#[derive(Debug)]
struct SharedError(Arc<BoxError>);

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SharedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&**self.0)
    }
}

/// A poisoned lock is taken as it is: no code that can panic runs under it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
