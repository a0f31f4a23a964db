//! Waiting for the result of a job.

mod asker;
mod waiters;

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

pub(super) use self::waiters::Waiters;

use super::Client;
use crate::error::{Error, Result};
use crate::words::ident::JobId;
use crate::words::wait_result::Waited;

/// A wait for a job's result, to be awaited. Made by [`Client::wait`].
#[derive(Debug)]
#[must_use = "a wait does not begin until it is awaited"]
pub struct Wait<'a> {
    client: &'a Client,
    id: JobId,
    timeout: Option<Duration>,
}

impl Wait<'_> {
    /// How long to wait at most. After that the answer is [`Waited::TimedOut`]. Default: without a limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl<'a> IntoFuture for Wait<'a> {
    type Output = Result<Waited>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, id, timeout } = self;
            let waiting = async {
                let Some(job) = client.job(id).await? else { return Ok(Waited::Gone) };
                if job.state.is_final() {
                    return Ok(Waited::Final(Box::new(job)));
                }
                client.check_that_results_stay(job.queue.as_str()).await?;
                Ok(client.until_final(id).await)
            };
            within(timeout, waiting).await
        })
    }
}

/// Waits for an answer within the timeout.
async fn within(timeout: Option<Duration>, waiting: impl Future<Output = Result<Waited>>) -> Result<Waited> {
    match timeout {
        Some(timeout) => tokio::time::timeout(timeout, waiting).await.unwrap_or(Ok(Waited::TimedOut)),
        None => waiting.await,
    }
}

impl Client {
    /// Waits until a job is final, and answers with its row.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use uniqueue::{Client, JobId, Waited};
    /// # async fn run(client: Client, id: JobId) -> uniqueue::Result<()> {
    /// match client.wait(id).timeout(Duration::from_secs(30)).await? {
    ///     Waited::Final(job) => println!("{}: {:?}", job.state, job.output),
    ///     Waited::Gone => println!("the job was deleted"),
    ///     Waited::TimedOut => println!("the job goes on"),
    ///     _ => {}
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// All waits of a client and its clones share one statement: it runs 25 ms after the first wait began, then less and
    /// less often, and once a second in the end. It runs at once when a runner of the same client ends one of the jobs. The
    /// wait goes on while the database is away, until its timeout.
    ///
    /// A job of a transaction that is not committed yet is [`Waited::Gone`]. Wait after the commit.
    ///
    /// # Errors
    ///
    /// [`Error::ResultsNotKept`] where the job's queue, or a live runner, deletes jobs as they complete.
    /// [`Error::Database`] when the first look at the job fails.
    pub fn wait(&self, id: impl Into<JobId>) -> Wait<'_> {
        Wait { client: self, id: id.into(), timeout: None }
    }

    /// Waits for the result of a job that was just inserted, or of the holder that the insert met.
    pub(super) async fn wait_for_inserted(&self, id: JobId, timeout: Duration) -> Waited {
        let waiting = async { Ok(self.until_final(id).await) };
        // The wait itself returns no error.
        within(Some(timeout), waiting).await.unwrap_or(Waited::TimedOut)
    }

    /// Returns an error where jobs of the queue are deleted as they complete.
    pub(super) async fn check_that_results_stay(&self, queue: &str) -> Result<()> {
        match self.store(&mut *self.connection().await?).deletes_completed(queue).await? {
            true => Err(Error::ResultsNotKept { queue: queue.to_owned() }),
            false => Ok(()),
        }
    }
}
