//! The verbs of remote workers: programs that fetch and finish jobs without a runner, on behalf of others.

use std::time::Duration;

use super::{Client, Request};
use crate::remote::{FetchedJob, FinishedRun, HeldRun, JobResult, JobRun, Maintained};
use crate::store::{self, RemoteFetch};

/// A fetch of a remote worker, to be awaited. Made by [`Client::fetch_jobs`].
///
/// # Errors
///
/// [`Error::Database`](crate::Error::Database), also for an argument outside its limits.
pub type FetchJobs<'a> = Request<'a, Vec<FetchedJob>, FetchQuery>;

/// The options of a fetch of a remote worker.
#[derive(Debug)]
pub struct FetchQuery(RemoteFetch);

impl FetchJobs<'_> {
    /// The most jobs: 1 to 1,000. Default: 1.
    pub fn count(mut self, count: u32) -> Self {
        self.options.0.count = count;
        self
    }

    /// Only jobs of these kinds: at least one. Default: any kind.
    pub fn kinds<I>(mut self, kinds: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.options.0.kinds = Some(kinds.into_iter().map(Into::into).collect());
        self
    }

    /// How long the jobs belong to the worker: 1 second to 1 day. Default: 1 minute. After it they are taken back, unless
    /// [`Client::extend_jobs`] extends the time.
    pub fn reserve(mut self, reserve: Duration) -> Self {
        self.options.0.reserve = reserve;
        self
    }

    /// If the fetch returns no job, the next insert wakes the worker, which waits with [`WakeUps`](crate::WakeUps).
    pub fn listens(mut self) -> Self {
        self.options.0.listens = true;
        self
    }
}

impl Client {
    /// Starts the next jobs of these queues for a remote worker of this name, and returns them in the order of work. Jobs
    /// of the first queue come first.
    ///
    /// It is for programs that hand jobs on to workers elsewhere. A service that works its own jobs has a
    /// [`Runner`](crate::Runner). Limits, groups, rates and order hold for both. The jobs belong to the worker until
    /// their reservation ends, and a result counts only for the run that was fetched:
    ///
    /// ```no_run
    /// # use uniqueue::{Client, JobError, JobResult};
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// for job in client.fetch_jobs(["emails"], "worker-1").count(10).await? {
    ///     let result = match job.kind.as_str() {
    ///         "email.send" => JobResult::complete(job.run),
    ///         _ => JobResult::fail(job.run, JobError::new("unknown kind").permanent()),
    ///     };
    ///     client.finish_jobs([result]).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// Maintenance needs a live runner, or calls of [`maintain`](Self::maintain).
    pub fn fetch_jobs<I>(&self, queues: I, worker: impl Into<String>) -> FetchJobs<'_>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let wanted = RemoteFetch {
            queues: queues.into_iter().map(Into::into).collect(),
            worker: worker.into(),
            count: 1,
            kinds: None,
            reserve: Duration::from_secs(60),
            listens: false,
        };
        Request::with(self, FetchQuery(wanted), |client, connection, FetchQuery(wanted)| {
            Box::pin(store::fetch_jobs(connection, client.statements(), wanted))
        })
    }

    /// Ends runs of jobs that [`fetch_jobs`](Self::fetch_jobs) returned. Returns one answer for each result, in the given
    /// order. Of two results of one job, the one of the later run counts.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database), also for a delay of more than 1,000 years.
    pub fn finish_jobs(&self, results: impl IntoIterator<Item = JobResult>) -> Request<'_, Vec<FinishedRun>> {
        let results: Vec<_> = results.into_iter().collect();
        Request::new(self, move |client, connection| {
            Box::pin(async move { store::finish_jobs(connection, client.statements(), &results).await })
        })
    }

    /// Reserves running jobs of remote workers for this time from now on: 1 second to 1 day. Returns one answer for each
    /// run, in the given order. Waits for no lock.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database), also for a time outside its limits.
    pub fn extend_jobs(&self, runs: impl IntoIterator<Item = JobRun>, reserve: Duration) -> Request<'_, Vec<HeldRun>> {
        let runs: Vec<_> = runs.into_iter().collect();
        Request::new(self, move |client, connection| {
            Box::pin(async move { store::extend_jobs(connection, client.statements(), &runs, reserve).await })
        })
    }

    /// Makes due jobs available, discards expired ones, takes back jobs whose worker died or whose reservation ran out,
    /// releases jobs whose parents have ended, and deletes final jobs past their retention: for programs without a
    /// [`Runner`](crate::Runner), which does all of this. Call it again after [`Maintained::next_in`]. Of any number of
    /// callers and runners, one does each of these.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn maintain(&self, worker: impl Into<String>) -> Request<'_, Maintained> {
        let worker = worker.into();
        Request::new(self, move |client, connection| {
            Box::pin(async move { store::maintain_once(connection, client.statements(), &worker).await })
        })
    }

    /// Ends a remote worker: the worker of this name no longer counts as alive, unless it has running jobs. Returns how many
    /// rows of [runners](Self::runners) were removed.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn stop_worker(&self, worker: impl Into<String>) -> Request<'_, u64> {
        let worker = worker.into();
        Request::new(self, move |client, connection| {
            Box::pin(async move { store::stop_worker(connection, client.statements(), &worker).await })
        })
    }
}
