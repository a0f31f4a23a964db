//! The builders of inserts: of one job and of many.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use super::Client;
use super::batch::unanswered;
use super::call::{Call, call_setters};
use crate::error::{Error, Result};
use crate::words::after::Parents;
use crate::words::ident::QueueName;
use crate::words::job::{Inserted, NewJob};
use crate::words::opts::{InsertOptions, insert_setters};
use crate::words::wait_result::Waited;

/// One insert, to be awaited. Made by [`Client::insert`].
///
/// The answer is the new job, or, where a job that claims the same unique key was there first,
/// that job with `duplicate` set. A duplicate is no error, writes nothing, and leaves the holder
/// and the caller's transaction alone, unless `update` changes the holder or `run_again` locks it against a start.
///
/// # Errors
///
/// - [`Error::Rejected`](crate::Error::Rejected) under `reject`, or under `replace` when the holder
///   is running. The caller's transaction is still usable.
/// - [`Error::Busy`](crate::Error::Busy) when `max_wait` ran out. The same holds.
/// - an `Invalid…` error for a name, an option, args or a policy that cannot be right; nothing was
///   sent.
/// - [`Error::Database`](crate::Error::Database); under `REPEATABLE READ` or `SERIALIZABLE` also a
///   conflict with a job newer than the snapshot, which
///   [`is_retryable`](crate::Error::is_retryable).
#[derive(Debug)]
#[must_use = "an insert does nothing until it is awaited"]
pub struct Insert<'a> {
    call: Call<'a>,
    job: NewJob,
}

impl<'a> Insert<'a> {
    pub(in crate::client) const fn new(client: &'a Client, job: NewJob) -> Self {
        Self { call: Call::new(client), job }
    }

    /// Runs the job after its parents have completed: see [`NewJob::after`].
    pub fn after(self, parents: impl Into<Parents>) -> Self {
        Self { job: self.job.after(parents), ..self }
    }

    /// Runs the job after its parents have ended, in any final state: see [`NewJob::after_final`].
    pub fn after_final(self, parents: impl Into<Parents>) -> Self {
        Self { job: self.job.after_final(parents), ..self }
    }

    /// Runs the job after its parents have ended, if one of them was cancelled or discarded: see [`NewJob::after_failed`].
    pub fn after_failed(self, parents: impl Into<Parents>) -> Self {
        Self { job: self.job.after_failed(parents), ..self }
    }

    /// Waits for the job's result after the insert: for `timeout` at most, counted from the insert's answer.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use serde_json::json;
    /// # use uniqueue::{Client, NewJob};
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// let job = NewJob::new("invoice.render", &json!({"invoice": 42}));
    /// let (inserted, waited) = client.insert(job).wait(Duration::from_secs(10)).await?;
    /// match waited.output::<String>()? {
    ///     Some(path) => println!("rendered: {path}"),
    ///     None => println!("job {}: {waited:?}", inserted.id()),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// A duplicate's wait is for the holder that the insert met. See [`Client::wait`](crate::Client::wait) for how the wait works.
    ///
    /// # Errors
    ///
    /// The errors of the insert. [`Error::ResultsNotKept`](crate::Error::ResultsNotKept) where the queue, or a live runner, deletes
    /// jobs as they complete; [`Error::InvalidOption`](crate::Error::InvalidOption) together with [`Insert::tx`]. Nothing was
    /// inserted then.
    pub async fn wait(self, timeout: Duration) -> Result<(Inserted, Waited)> {
        let client = self.call.client;
        if self.call.connection.is_some() {
            return Err(Error::InvalidOption {
                option: "wait",
                problem: "cannot be combined with tx, since no worker sees the job before the commit: commit, then call Client::wait for the job",
                given: self.job.kind().to_owned(),
            });
        }
        client.check_that_results_stay(self.queue_name()).await?;
        let inserted = self.await?;
        let waited = if inserted.job.state.is_final() {
            Waited::Final(Box::new(inserted.job.clone()))
        } else {
            client.wait_for_inserted(inserted.id(), timeout).await
        };
        Ok((inserted, waited))
    }

    /// The queue that the job goes to. It may be an invalid name, which the insert reports.
    fn queue_name(&self) -> &str {
        let of_client = self.call.client.defaults().queue.as_deref();
        self.job.queue_name().or(of_client).unwrap_or(QueueName::DEFAULT)
    }

    fn options_mut(&mut self) -> &mut InsertOptions {
        &mut self.job.options
    }
}

call_setters!(Insert);
insert_setters!(Insert<'a>);

impl<'a> IntoFuture for Insert<'a> {
    type Output = Result<Inserted>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.call.run(vec![self.job]).await?.pop().ok_or_else(unanswered) })
    }
}

/// A batch of inserts, to be awaited. Made by [`Client::insert_many`].
///
/// A batch means what inserting its jobs one after another would mean: equal keys fold (under `ignore`
/// onto the first, under `replace` the last one lives). Answers come in input order, one an input. It is all or nothing:
/// under `reject` the error names every duplicate and nothing is inserted. Two batches never deadlock, since keys are
/// taken in one fixed order. Two *transactions* that each insert several batches can deadlock, as with any rows.
///
/// # Errors
///
/// As for [`Insert`](super::Insert).
///
/// # Limits
///
/// A batch is one statement up to 16 MB. A larger one is sent in statements of up to 16 MB within one transaction, so the
/// server's memory does not grow with the batch. Jobs with one key are not divided. A call with jobs that run
/// [after](NewJob::after) others is one statement, and an error above 64 MB.
#[derive(Debug)]
#[must_use = "an insert does nothing until it is awaited"]
pub struct InsertMany<'a> {
    call: Call<'a>,
    jobs: Vec<NewJob>,
}

impl<'a> InsertMany<'a> {
    pub(in crate::client) const fn new(client: &'a Client, jobs: Vec<NewJob>) -> Self {
        Self { call: Call::new(client), jobs }
    }
}

call_setters!(InsertMany);

impl<'a> IntoFuture for InsertMany<'a> {
    type Output = Result<Vec<Inserted>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.call.run(self.jobs))
    }
}
