//! Inserting many jobs.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use super::Client;
use super::call::{Call, call_setters};
use crate::error::Result;
use crate::words::job::{Inserted, NewJob};

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
