//! Inserting one job, and waiting for its result.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use super::builders::Insert;
use crate::error::{Error, Result};
use crate::words::job::Inserted;
use crate::words::wait_result::Waited;

/// An insert and a wait for the job's result, to be awaited. Made by [`Insert::wait`].
#[derive(Debug)]
#[must_use = "an insert does nothing until it is awaited"]
pub struct InsertAndWait<'a> {
    insert: Insert<'a>,
    timeout: Duration,
}

impl<'a> Insert<'a> {
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
    pub fn wait(self, timeout: Duration) -> InsertAndWait<'a> {
        InsertAndWait { insert: self, timeout }
    }
}

impl<'a> IntoFuture for InsertAndWait<'a> {
    type Output = Result<(Inserted, Waited)>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { insert, timeout } = self;
        Box::pin(async move {
            let client = insert.call.client;
            if insert.call.connection.is_some() {
                return Err(Error::InvalidOption {
                    option: "wait",
                    problem: "cannot be combined with tx, since no worker sees the job before the commit: commit, then call Client::wait for the job",
                    given: insert.job.kind().to_owned(),
                });
            }
            client.check_that_results_stay(insert.queue_name()).await?;
            let inserted = insert.await?;
            let waited = if inserted.job.state.is_final() {
                Waited::Final(Box::new(inserted.job.clone()))
            } else {
                client.wait_for_inserted(inserted.id(), timeout).await
            };
            Ok((inserted, waited))
        })
    }
}
