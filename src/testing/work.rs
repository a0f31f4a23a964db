//! Running a worker's code for one job, without a runner.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::client::Client;
use crate::words::attempt_error::AttemptError;
use crate::words::job::{Job, JobRow, NewJob};
use crate::words::opts::{InsertOptions, insert_setters};
use crate::words::outcome::{BoxError, Outcome};
use crate::worker::panics::{catching, remember_places};
use crate::worker::{Attempt, RunningJob, States, StopReason, WorkFuture, Worker};

/// A directory without a socket: a worker without a database that connects gets an error with this text.
const NO_DATABASE: &str = "/nonexistent/this work has no database, see Work::database";

/// Runs a worker for one job in this task, and returns its outcome.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use std::time::Duration;
/// use uniqueue::{Job, Outcome, RunningJob, testing};
///
/// #[derive(Deserialize, Job, Serialize)]
/// #[job(kind = "payment.check")]
/// struct CheckPayment {
///     amount: u32,
/// }
///
/// async fn check(job: RunningJob<CheckPayment>) -> Result<Outcome, std::num::ParseIntError> {
///     if job.row().meta.contains_key("paid") {
///         return Ok(Outcome::complete());
///     }
///     match job.attempt() {
///         1..=3 => Ok(Outcome::snooze(Duration::from_secs(60))),
///         _ => Ok(Outcome::cancel("not paid")),
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let outcome = testing::work(check, CheckPayment { amount: 5 }).await?;
/// assert_eq!(outcome, Outcome::snooze(Duration::from_secs(60)));
///
/// let outcome = testing::work(check, CheckPayment { amount: 5 }).attempt(4).await?;
/// assert_eq!(outcome, Outcome::cancel("not paid"));
///
/// let outcome = testing::work(check, CheckPayment { amount: 5 }).attempt(4).meta("paid", true).await?;
/// assert_eq!(outcome, Outcome::complete());
/// # Ok(()) }
/// ```
///
/// The args go through their JSON, as they would in a queue. There is no retry, no timeout and no recorded result, as
/// there would be in a runner. [`work_batch`](super::work_batch) runs a batch worker. To see what the queue does with the outcome, [`drain`](super::drain) the queue.
pub fn work<J: Job>(worker: impl Worker<J>, job: J) -> Work<'static> {
    Work {
        job: job.into(),
        attempt: 1,
        errors: Vec::new(),
        states: States::default(),
        stop: None,
        client: None,
        run: Box::new(|attempt| {
            Box::pin(async move {
                let job = RunningJob::read(attempt)?;
                worker.work(job).await
            })
        }),
    }
}

/// One run of a worker, to be awaited. Made by [`work`].
///
/// Takes the options of an insert. The worker sees `queue`, `priority`, `max_attempts`, `meta` and `id`.
///
/// # Panics
///
/// When the job is invalid: its args do not serialise, or a name is invalid. With a database: when it cannot be reached,
/// or has a job with the same unique key.
#[must_use = "work does nothing until it is awaited"]
pub struct Work<'a> {
    job: NewJob,
    attempt: u16,
    errors: Vec<AttemptError>,
    states: States,
    stop: Option<StopReason>,
    client: Option<&'a Client>,
    run: Box<dyn FnOnce(Arc<Attempt>) -> WorkFuture<'static> + Send + 'a>,
}

insert_setters!(Work<'a>);

impl<'a> Work<'a> {
    /// The attempt, counted from 1. Default: 1.
    pub const fn attempt(mut self, attempt: u16) -> Self {
        self.attempt = attempt;
        self
    }

    /// Adds the error of an earlier attempt, which the worker sees in the row's `errors`. Ignored with a
    /// database.
    pub fn failed_before(mut self, error: impl Into<String>) -> Self {
        let attempt = u16::try_from(self.errors.len() + 1).unwrap_or(u16::MAX);
        let at = OffsetDateTime::now_utc();
        let error = error.into();
        self.errors.push(AttemptError {
            attempt,
            at,
            error,
            code: None,
            error_type: None,
            retryable: None,
            details: None,
        });
        self
    }

    /// Gives the worker a shared value, as [`Runner::state`](crate::Runner::state) does.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.add(value);
        self
    }

    /// Asks the worker to stop from its start, to test its reaction. Unlike in a runner, a worker that ignores
    /// this runs to its end.
    pub const fn stopped(mut self, reason: StopReason) -> Self {
        self.stop = Some(reason);
        self
    }

    /// Gives the worker a database: [`AnyJob::client`](crate::AnyJob::client) is its client, and the job is a running row there,
    /// so that [`AnyJob::complete_in`](crate::AnyJob::complete_in) works.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use uniqueue::{BoxError, Job, JobState, RunningJob, assert_inserted, testing};
    /// # #[derive(Deserialize, Job, Serialize)]
    /// # #[job(kind = "order.ship")]
    /// # struct Ship { order: u64 }
    /// # #[derive(Deserialize, Job, Serialize)]
    /// # #[job(kind = "order.notify")]
    /// # struct Notify { order: u64 }
    /// async fn ship(job: RunningJob<Ship>) -> Result<(), BoxError> {
    ///     let mut tx = job.client().pool().begin().await?;
    ///     job.client().insert(Notify { order: job.args.order }).tx(&mut tx).await?;
    ///     job.complete_in(&mut tx).await?;
    ///     tx.commit().await?;
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let database = testing::Database::new().await?;
    /// testing::work(ship, Ship { order: 7 }).database(&database).await?;
    /// assert_inserted!(database, Ship, state = JobState::Completed);
    /// assert_inserted!(database, Notify, args = {"order": 7});
    /// # Ok(()) }
    /// ```
    ///
    /// The outcome is not recorded: without `complete_in` the row stays `running`.
    ///
    /// Default: none. A worker that connects then gets an error.
    pub fn database<'b>(self, database: &'b impl AsRef<Client>) -> Work<'b>
    where
        'a: 'b,
    {
        Work { client: Some(database.as_ref()), ..self }
    }

    fn options_mut(&mut self) -> &mut InsertOptions {
        &mut self.job.options
    }
}

impl<'a> IntoFuture for Work<'a> {
    type Output = Result<Outcome, Failure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { job, attempt, errors, states, stop, client, run } = self;
            let attempt = begin(client, job, attempt, errors, states).await;
            if let Some(reason) = stop {
                attempt.stop.request(reason);
            }
            catch_panic(run(attempt)).await
        })
    }
}

impl fmt::Debug for Work<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("job", &self.job).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// The failure of a worker: it returned an error, or panicked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The worker's own error.
    #[error(transparent)]
    Error(BoxError),
    /// The panic's place and message, such as `panicked at src/mail.rs:7:5: no address`.
    #[error("{0}")]
    Panic(String),
}

/// An attempt at a job without a runner, in the database of the client where one is given.
pub(super) async fn begin(
    client: Option<&Client>,
    job: NewJob,
    attempt: u16,
    errors: Vec<AttemptError>,
    states: States,
) -> Arc<Attempt> {
    let worker = Uuid::now_v7();
    let (row, client) = match client {
        Some(client) => (insert_running(client, job, attempt, worker).await, client.clone()),
        None => {
            let client = no_database();
            (row_without_database(&client, job, attempt, errors, worker), client)
        }
    };
    Arc::new(Attempt {
        row,
        worker,
        client,
        states: Arc::new(states),
        stop: Arc::default(),
        is_deleted: false,
        reports: Arc::default(),
        is_completed_in: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
    })
}

/// Inserts the job and makes it a running job of the worker. It is inserted as pending, so that no runner fetches it.
async fn insert_running(client: &Client, job: NewJob, attempt: u16, worker: Uuid) -> JobRow {
    let inserting = async {
        let inserted = client.insert(job.pending()).await?;
        if inserted.duplicate {
            let holder = inserted.id();
            return Ok(Err(format!("the job is a duplicate of job {holder}, which exists already")));
        }
        let number = i16::try_from(attempt).unwrap_or(i16::MAX);
        let mut connection = client.connection().await?;
        let row = client.store(&mut connection).start_job(inserted.id(), number, worker).await?;
        Ok::<_, crate::error::Error>(Ok(row))
    };
    match inserting.await {
        Ok(Ok(row)) => row,
        Ok(Err(problem)) => panic!("cannot run the worker: {problem}"),
        Err(error) => panic!("cannot run the worker: {error}"),
    }
}

/// The job as its insert and its fetch would make it.
fn row_without_database(client: &Client, job: NewJob, attempt: u16, errors: Vec<AttemptError>, worker: Uuid) -> JobRow {
    let now = OffsetDateTime::now_utc();
    let row = client.row_of(job, now).unwrap_or_else(|error| panic!("cannot run the worker: {error}"));
    let row = row.into_running(now);
    JobRow { attempt, max_attempts: row.max_attempts.max(attempt), errors, worker: Some(worker), ..row }
}

fn no_database() -> Client {
    let nowhere = PgConnectOptions::new_without_pgpass().socket(NO_DATABASE);
    Client::new(PgPoolOptions::new().connect_lazy_with(nowhere))
}

/// Runs the worker, and catches its panic.
pub(super) async fn catch_panic<T>(
    work: Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>,
) -> Result<T, Failure> {
    remember_places();
    catching(work).await.map_err(Failure::Panic)?.map_err(Failure::Error)
}
