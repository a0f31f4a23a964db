//! Running a batch worker's code for some jobs, without a runner.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use super::work::{Failure, begin, catch_panic};
use crate::client::Client;
use crate::words::job::{Job, NewJob};
use crate::words::outcome::BoxError;
use crate::worker::{Attempt, BatchResults, BatchWorker, RunningJob, States, one_for_each};

type BatchFuture = Pin<Box<dyn Future<Output = Result<BatchResults, BoxError>> + Send>>;

/// Runs a batch worker for these jobs in this task, and returns a result for each, in their order.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use uniqueue::{Job, JobError, Outcome, RunningJob, testing};
///
/// #[derive(Deserialize, Job, Serialize)]
/// #[job(kind = "contact.export")]
/// struct Export {
///     email: String,
/// }
///
/// async fn export(jobs: Vec<RunningJob<Export>>) -> Vec<Result<(), JobError>> {
///     let invalid = || JobError::new("not an address").permanent();
///     jobs.iter().map(|job| if job.args.email.contains('@') { Ok(()) } else { Err(invalid()) }).collect()
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let jobs = ["a@example.com", "nobody"].map(|email| Export { email: email.to_owned() });
/// let results = testing::work_batch(export, jobs).await?;
/// assert_eq!(*results[0].as_ref().unwrap(), Outcome::complete());
/// assert_eq!(results[1].as_ref().unwrap_err().to_string(), "not an address");
/// # Ok(()) }
/// ```
///
/// Each job is at its first attempt. As in a runner, a job without a result has failed. A job is a value of `J` or a
/// [`NewJob`] with options of its own. To see what the queue does with the results, [`drain`](super::drain) the queue.
pub fn work_batch<J: Job, N: Into<NewJob>>(
    worker: impl BatchWorker<J>,
    jobs: impl IntoIterator<Item = N>,
) -> WorkBatch<'static> {
    WorkBatch {
        jobs: jobs.into_iter().map(Into::into).collect(),
        states: States::default(),
        client: None,
        run: Box::new(|attempts| {
            Box::pin(async move {
                let jobs = attempts.into_iter().map(RunningJob::read).collect::<Result<Vec<_>, _>>()?;
                worker.work(jobs).await
            })
        }),
    }
}

/// One run of a batch worker, to be awaited. Made by [`work_batch`].
///
/// # Panics
///
/// As for [`Work`](super::Work).
#[must_use = "work does nothing until it is awaited"]
pub struct WorkBatch<'a> {
    jobs: Vec<NewJob>,
    states: States,
    client: Option<&'a Client>,
    run: Box<dyn FnOnce(Vec<Arc<Attempt>>) -> BatchFuture + Send + 'a>,
}

impl<'a> WorkBatch<'a> {
    /// Gives the worker a shared value, as [`Runner::state`](crate::Runner::state) does.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.add(value);
        self
    }

    /// Gives the worker a database in which the jobs are running rows, as [`Work::database`](super::Work::database).
    pub fn database<'b>(self, database: &'b impl AsRef<Client>) -> WorkBatch<'b>
    where
        'a: 'b,
    {
        WorkBatch { client: Some(database.as_ref()), ..self }
    }
}

impl<'a> IntoFuture for WorkBatch<'a> {
    type Output = Result<BatchResults, Failure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { jobs, states, client, run } = self;
            let mut attempts = Vec::with_capacity(jobs.len());
            for job in jobs {
                attempts.push(begin(client, job, 1, Vec::new(), states.clone()).await);
            }
            let count = attempts.len();
            one_for_each(catch_panic(run(attempts)).await?, count).map_err(Failure::Error)
        })
    }
}

impl fmt::Debug for WorkBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkBatch").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}
