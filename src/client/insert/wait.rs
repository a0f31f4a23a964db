//! Inserting one job, and waiting for its result.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use super::one::Insert;
use crate::error::{Error, Result};
use crate::job::Inserted;
use crate::waited::Waited;

/// An insert and a wait for the job's result, to be awaited. Made by [`Insert::wait`].
#[derive(Debug)]
#[must_use = "an insert does nothing until it is awaited"]
pub struct InsertAndWait<'a> {
    pub(super) insert: Insert<'a>,
    pub(super) timeout: Duration,
}

impl<'a> IntoFuture for InsertAndWait<'a> {
    type Output = Result<(Inserted, Waited)>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { insert, timeout } = self;
        Box::pin(async move {
            let client = insert.client();
            if insert.has_connection() {
                return Err(Error::InvalidOption {
                    option: "wait",
                    problem: "cannot be combined with tx, since no worker sees the job before the commit: commit, then call Client::wait for the job",
                    given: insert.kind().to_owned(),
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
