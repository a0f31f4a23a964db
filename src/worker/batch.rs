//! Workers that work several jobs in one call.
//!
//! Each job of a batch has a slot and an attempt of its own, so limits, heartbeats, timeouts, cancellation and results
//! work as for single jobs. The jobs of a batch share one future. One attempt, the leader, polls it. Every other attempt
//! waits for its result. An attempt that ends early leaves its seat, and a leader passes the lead on.
//!
//! ```text
//! first job ──▶ gathering ── full, the time is over, or a stop ──▶ working ──▶ results
//! ```

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::time::{Instant, Sleep};

use super::any_worker::{AnyWorker, Begun};
use super::attempt::Attempt;
use super::batch_worker::{BatchResults, BatchWorker, Batching};
use super::options::WorkerOptions;
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
    size: Batching,
    options: WorkerOptions,
    /// The batch that gathers jobs.
    open: Mutex<Option<Arc<Batch>>>,
    kind: PhantomData<fn() -> J>,
}

impl<J: Job, W: BatchWorker<J>> Batched<J, W> {
    pub(super) fn new(worker: W, size: Batching, options: WorkerOptions) -> Self {
        Self { worker, size, options, open: Mutex::default(), kind: PhantomData }
    }

    /// Takes a seat in the batch that gathers, or opens one.
    fn join(self: &Arc<Self>, job: RunningJob<J>, attempt: Arc<Attempt>) -> Seat<J, W> {
        let mut open = lock(&self.open);
        let batch = match open.take() {
            Some(batch) => batch,
            None => Arc::new(Batch::new(Instant::now() + self.size.within)),
        };
        let mut state = lock(&batch.state);
        let place = state.seats.len();
        state.seats.push(SeatState { job: Some(Box::new(job)), ..SeatState::default() });
        state.is_closed = state.live() >= self.size.most;
        let leader = state.leader_to_wake();
        let is_full = state.is_closed;
        drop(state);
        if is_full {
            wake(leader);
        } else {
            *open = Some(Arc::clone(&batch));
        }
        Seat { worker: Arc::clone(self), batch, attempt, place, timer: None }
    }

    async fn work(&self, jobs: Vec<RunningJob<J>>) -> Result<BatchResults, BoxError> {
        let count = jobs.len();
        one_for_each(self.worker.work(jobs).await?, count)
    }

    /// Takes the batch from those that may join it.
    fn close(&self, batch: &Arc<Batch>) {
        let mut open = lock(&self.open);
        if open.as_ref().is_some_and(|open| Arc::ptr_eq(open, batch)) {
            *open = None;
        }
        drop(open);
        lock(&batch.state).is_closed = true;
    }

    /// The work of the jobs that are there.
    fn begin_work(self: &Arc<Self>, batch: &Batch) -> BatchWork {
        let mut jobs = Vec::new();
        let mut state = lock(&batch.state);
        for (place, seat) in state.seats.iter_mut().enumerate() {
            if let Some(job) = seat.job.take().and_then(|job| job.downcast::<RunningJob<J>>().ok()) {
                jobs.push((place, *job));
            }
        }
        drop(state);
        let (places, jobs): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        let worker = Arc::clone(self);
        BatchWork { places, work: Box::pin(async move { worker.work(jobs).await }) }
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
        if is_suspect || self.size.most == 1 {
            let work = async move { self.work(vec![job]).await?.remove(0) };
            return Begun { work: Box::pin(work), timeout, error_type };
        }
        let work = async move { self.join(job, attempt).await };
        Begun { work: Box::pin(work), timeout, error_type }
    }

    fn retry_policy(&self) -> Option<RetryPolicy> {
        self.options.retry_policy.or_else(|| self.worker.retry_policy())
    }

    fn needs(&self) -> Needs {
        self.worker.needs()
    }

    #[cfg(feature = "testing")]
    fn most(&self) -> usize {
        self.size.most
    }

    #[cfg(feature = "testing")]
    fn close_batch(&self) {
        let Some(batch) = lock(&self.open).take() else { return };
        let mut state = lock(&batch.state);
        state.is_closed = true;
        let leader = state.leader_to_wake();
        drop(state);
        wake(leader);
    }
}

/// The results, where there is one for each job. Any other number does not tell which job a result belongs to, so none counts.
pub(crate) fn one_for_each(results: BatchResults, jobs: usize) -> Result<BatchResults, BoxError> {
    if results.len() == jobs {
        return Ok(results);
    }
    Err(format!("the batch worker returned {} results for {jobs} jobs", results.len()).into())
}

/// Several attempts that share one future.
struct Batch {
    /// When the first job has waited long enough.
    due: Instant,
    state: Mutex<BatchState>,
}

#[derive(Default)]
struct BatchState {
    seats: Vec<SeatState>,
    /// The place that polls the work.
    leader: usize,
    /// Whether no more jobs may join.
    is_closed: bool,
    /// The work, unless it has not begun, is being polled, or is over.
    work: Option<BatchWork>,
    has_begun: bool,
}

#[derive(Default)]
struct SeatState {
    /// The job until the work begins.
    job: Option<Box<dyn Any + Send>>,
    is_empty: bool,
    waker: Option<Waker>,
    result: Option<Result<Outcome, BoxError>>,
}

/// The work of a batch.
struct BatchWork {
    /// The places of its jobs, in their order.
    places: Vec<usize>,
    work: Pin<Box<dyn Future<Output = Result<BatchResults, BoxError>> + Send>>,
}

impl Batch {
    fn new(due: Instant) -> Self {
        Self { due, state: Mutex::default() }
    }
}

impl BatchState {
    /// How many seats are taken.
    fn live(&self) -> usize {
        self.seats.iter().filter(|seat| !seat.is_empty).count()
    }

    fn leader_to_wake(&self) -> Option<Waker> {
        self.seats.get(self.leader)?.waker.clone()
    }

    /// Gives each place its result. Returns the wakers of the attempts that wait for one.
    fn deal(&mut self, places: &[usize], results: Result<BatchResults, BoxError>) -> Vec<Waker> {
        match results {
            Ok(results) => {
                for (place, result) in places.iter().zip(results) {
                    self.seats[*place].result = Some(result);
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                for place in places {
                    self.seats[*place].result = Some(Err(SharedError(Arc::clone(&error)).into()));
                }
            }
        }
        self.seats.iter_mut().filter_map(|seat| seat.waker.take()).collect()
    }
}

/// The work wakes the attempt that leads at that moment.
impl Wake for Batch {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let leader = lock(&self.state).leader_to_wake();
        wake(leader);
    }
}

/// One attempt's part in a batch.
struct Seat<J: Job, W: BatchWorker<J>> {
    worker: Arc<Batched<J, W>>,
    batch: Arc<Batch>,
    attempt: Arc<Attempt>,
    place: usize,
    /// The timer of the leader, until the batch is worked.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<J: Job, W: BatchWorker<J>> Future for Seat<J, W> {
    type Output = Result<Outcome, BoxError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let stop = self.attempt.stop.reason();
        let mut state = lock(&self.batch.state);
        if state.seats[state.leader].is_empty {
            // All earlier attempts left before this attempt joined.
            state.leader = self.place;
        }
        let seat = &mut state.seats[self.place];
        if let Some(result) = seat.result.take() {
            return Poll::Ready(result);
        }
        seat.waker = Some(context.waker().clone());
        if !state.has_begun && stop.is_some_and(|reason| reason != StopReason::Stopping) {
            // It leaves its seat when it is dropped.
            return Poll::Ready(Err("stopped while it waited for its batch".into()));
        }
        if state.leader != self.place {
            // A runner that stops does not wait for more jobs.
            let leader = (stop.is_some() && !state.has_begun).then(|| state.leader_to_wake()).flatten();
            let must_close = leader.is_some();
            drop(state);
            if must_close {
                self.worker.close(&self.batch);
                wake(leader);
            }
            return Poll::Pending;
        }
        let (has_begun, is_closed) = (state.has_begun, state.is_closed);
        drop(state);
        if !has_begun {
            let due = self.batch.due;
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if !is_closed && stop.is_none() && timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.timer = None;
            self.worker.close(&self.batch);
            let work = self.worker.begin_work(&self.batch);
            let mut state = lock(&self.batch.state);
            state.has_begun = true;
            state.work = Some(work);
        }
        self.poll_work()
    }
}

impl<J: Job, W: BatchWorker<J>> Seat<J, W> {
    /// Polls the shared work. The batch is not locked meanwhile, since the work may wake itself.
    fn poll_work(&self) -> Poll<Result<Outcome, BoxError>> {
        let Some(mut work) = lock(&self.batch.state).work.take() else { return Poll::Pending };
        let waker = Waker::from(Arc::clone(&self.batch));
        let polled = catch_unwind(AssertUnwindSafe(|| work.work.as_mut().poll(&mut Context::from_waker(&waker))));
        let (results, panic) = match polled {
            Ok(Poll::Pending) => {
                lock(&self.batch.state).work = Some(work);
                return Poll::Pending;
            }
            Ok(Poll::Ready(results)) => (results, None),
            Err(panic) => {
                let error = JobError::new(format!("the batch panicked: {}", message(panic.as_ref()))).code("panicked");
                (Err(error.into()), Some(panic))
            }
        };
        let mut state = lock(&self.batch.state);
        let waiting = state.deal(&work.places, results);
        let own = state.seats[self.place].result.take();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
        if let Some(panic) = panic {
            // The runner learns its place.
            resume_unwind(panic);
        }
        own.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<J: Job, W: BatchWorker<J>> Drop for Seat<J, W> {
    fn drop(&mut self) {
        let mut state = lock(&self.batch.state);
        let seat = &mut state.seats[self.place];
        seat.is_empty = true;
        seat.waker = None;
        let left = (seat.job.take(), seat.result.take());
        let mut abandoned = None;
        let mut next = None;
        if state.leader == self.place {
            match state.seats.iter().position(|seat| !seat.is_empty) {
                Some(place) => {
                    state.leader = place;
                    next = state.leader_to_wake();
                }
                // The work refers to the batch by its wakers, so it is dropped here.
                None => abandoned = state.work.take(),
            }
        }
        let is_deserted = state.live() == 0;
        drop(state);
        if is_deserted {
            self.worker.close(&self.batch);
        }
        wake(next);
        drop((left, abandoned));
    }
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

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// A poisoned lock is taken as it is: no code that can panic runs under it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
