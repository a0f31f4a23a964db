//! The verbs of remote workers: programs that fetch and finish jobs without a runner, on behalf of others.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use sqlx::{Connection, PgConnection};

use super::{Call, Client};
use crate::error::{AnswerFuture, Result};
use crate::store::{self, RemoteFetch};
use crate::words::remote::{FetchedJob, FinishedRun, HeldRun, JobResult, JobRun, Maintained};

/// The verbs of remote workers. Made by [`Client::remote`].
///
/// They are for programs that hand jobs on to workers elsewhere. A service that works its own jobs has a
/// [`Runner`](crate::Runner). Limits, groups, rates and order hold for both. The jobs belong to the worker until
/// their reservation ends, and a result counts only for the run that was fetched:
///
/// ```no_run
/// # use uniqueue::{Client, JobError, JobResult};
/// # async fn run(client: Client) -> uniqueue::Result<()> {
/// for job in client.remote().fetch_jobs(["emails"], "worker-1").count(10).await? {
///     let result = match job.kind.as_str() {
///         "email.send" => JobResult::complete(job.run),
///         _ => JobResult::fail(job.run, JobError::new("unknown kind").permanent()),
///     };
///     client.remote().finish_jobs([result]).await?;
/// }
/// # Ok(()) }
/// ```
///
/// Maintenance needs a live runner, or calls of [`maintain`](Self::maintain).
#[derive(Clone, Copy, Debug)]
#[must_use = "a handle does nothing by itself"]
pub struct Remote<'a> {
    client: &'a Client,
}

/// A fetch of a remote worker, to be awaited. Made by [`Remote::fetch_jobs`].
///
/// # Errors
///
/// [`Error::Database`](crate::Error::Database), also for an argument outside its limits.
#[must_use = "nothing is fetched until it is awaited"]
pub struct FetchJobs<'a> {
    client: &'a Client,
    wanted: RemoteFetch,
    reserve_each: Option<ReserveEach>,
    connection: Option<&'a mut PgConnection>,
}

/// The reservation of one job. `None`: that of the whole fetch.
type ReserveEach = Box<dyn Fn(&FetchedJob) -> Option<Duration> + Send + Sync>;

impl fmt::Debug for FetchJobs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchJobs").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

impl<'a> FetchJobs<'a> {
    /// Fetches in the caller's own transaction, or on any other connection of the caller's.
    pub fn tx(mut self, connection: &'a mut PgConnection) -> Self {
        self.connection = Some(connection);
        self
    }

    /// The most jobs: 1 to 1,000. Default: 1.
    pub fn count(mut self, count: u32) -> Self {
        self.wanted.count = count;
        self
    }

    /// Only jobs of these kinds: at least one. Default: any kind.
    pub fn kinds<I>(mut self, kinds: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.wanted.kinds = Some(kinds.into_iter().map(Into::into).collect());
        self
    }

    /// How long the jobs belong to the worker: 1 second to 1 day. Default: 1 minute. After it they are taken back, unless
    /// [`Remote::extend_jobs`] extends the time.
    pub fn reserve(mut self, reserve: Duration) -> Self {
        self.wanted.reserve = reserve;
        self
    }

    /// Reserves each job for as long as this function says, by its meta for example: 1 second to 1 day. `None`: for the
    /// time of [`reserve`](Self::reserve). Default: all jobs have the time of the fetch.
    ///
    /// The fetch is one transaction with the reservations, so a process that dies leaves no job reserved for longer than its
    /// own time. Jobs of the same time share a statement.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use uniqueue::Client;
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// let jobs = client.remote().fetch_jobs(["videos"], "worker-1").count(10);
    /// let jobs = jobs.reserve_each(|job| Some(Duration::from_secs(job.meta.get("seconds")?.as_u64()?))).await?;
    /// # Ok(()) }
    /// ```
    pub fn reserve_each(mut self, of: impl Fn(&FetchedJob) -> Option<Duration> + Send + Sync + 'static) -> Self {
        self.reserve_each = Some(Box::new(of));
        self
    }

    /// If the fetch returns no job, the next insert wakes the worker, which waits with [`WakeUps`](crate::WakeUps).
    pub fn listens(mut self) -> Self {
        self.wanted.listens = true;
        self
    }
}

impl<'a> IntoFuture for FetchJobs<'a> {
    type Output = Result<Vec<FetchedJob>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { client, wanted, reserve_each, connection } = self;
        let call = Call::new(client, move |client, connection| fetch(client, connection, wanted, reserve_each));
        match connection {
            Some(connection) => call.tx(connection).into_future(),
            None => call.into_future(),
        }
    }
}

impl Client {
    /// The verbs of remote workers: programs that fetch and finish jobs without a runner, on behalf of others.
    pub const fn remote(&self) -> Remote<'_> {
        Remote { client: self }
    }
}

impl<'a> Remote<'a> {
    /// Starts the next jobs of these queues for a remote worker of this name, and returns them in the order of work. Jobs
    /// of the first queue come first.
    pub fn fetch_jobs<I>(self, queues: I, worker: impl Into<String>) -> FetchJobs<'a>
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
        FetchJobs { client: self.client, wanted, reserve_each: None, connection: None }
    }

    /// Ends runs of jobs that [`fetch_jobs`](Self::fetch_jobs) returned. Returns one answer for each result, in the given
    /// order. Of two results of one job, the one of the later run counts. A job that another transaction has locked for longer
    /// than 0.1 s is answered `locked`. A value that PostgreSQL cannot store is dropped with a warning, and the rest counts.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database), also for a delay of more than 1,000 years.
    pub fn finish_jobs(self, results: impl IntoIterator<Item = JobResult>) -> Call<'a, Vec<FinishedRun>> {
        let results: Vec<_> = results.into_iter().collect();
        Call::new(self.client, move |client, connection| {
            Box::pin(async move { store::finish_jobs(connection, client.statements(), &results).await })
        })
    }

    /// Reserves running jobs of remote workers for this time from now on: 1 second to 1 day. Returns one answer for each
    /// run, in the given order. Waits for no lock.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database), also for a time outside its limits.
    pub fn extend_jobs(self, runs: impl IntoIterator<Item = JobRun>, reserve: Duration) -> Call<'a, Vec<HeldRun>> {
        let runs: Vec<_> = runs.into_iter().collect();
        Call::new(self.client, move |client, connection| {
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
    pub fn maintain(self, worker: impl Into<String>) -> Call<'a, Maintained> {
        let worker = worker.into();
        Call::new(self.client, move |client, connection| {
            Box::pin(async move { store::maintain_once(connection, client.statements(), &worker).await })
        })
    }

    /// Ends a remote worker: the worker of this name no longer counts as alive, unless it has running jobs. Returns how many
    /// rows of runners were removed.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn stop_worker(self, worker: impl Into<String>) -> Call<'a, u64> {
        let worker = worker.into();
        Call::new(self.client, move |client, connection| {
            Box::pin(async move { store::stop_worker(connection, client.statements(), &worker).await })
        })
    }
}

fn fetch<'c>(
    client: &'c Client,
    connection: &'c mut PgConnection,
    wanted: RemoteFetch,
    reserve_each: Option<ReserveEach>,
) -> AnswerFuture<'c, Vec<FetchedJob>> {
    let Some(of) = reserve_each else {
        return Box::pin(store::fetch_jobs(connection, client.statements(), wanted));
    };
    Box::pin(async move {
        // The caller's transaction ends both.
        if connection.is_in_transaction() {
            return fetch_and_reserve(client, connection, wanted, of).await;
        }
        let mut tx = store::begin_read_committed(connection).await?;
        let jobs = fetch_and_reserve(client, &mut tx, wanted, of).await?;
        store::commit(tx).await?;
        Ok(jobs)
    })
}

async fn fetch_and_reserve(
    client: &Client,
    connection: &mut PgConnection,
    wanted: RemoteFetch,
    of: ReserveEach,
) -> Result<Vec<FetchedJob>> {
    let reserve = wanted.reserve;
    let mut jobs = store::fetch_jobs(connection, client.statements(), wanted).await?;
    let mut others: BTreeMap<Duration, Vec<JobRun>> = BTreeMap::new();
    for job in &jobs {
        if let Some(own) = of(job).filter(|own| *own != reserve) {
            others.entry(own).or_default().push(job.run);
        }
    }
    for (own, runs) in others {
        for held in store::extend_jobs(connection, client.statements(), &runs, own).await? {
            if let (Some(until), Some(job)) = (held.reserved_until, jobs.iter_mut().find(|job| job.run == held.run)) {
                job.reserved_until = until;
            }
        }
    }
    Ok(jobs)
}
