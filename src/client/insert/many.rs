//! Inserting many jobs.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;
use sqlx::PgConnection;

use super::Client;
use super::call::Call;
use super::logged::insert_logged;
use crate::client::actor;
use crate::error::Result;
use crate::words::job::{Inserted, NewJob};
#[cfg(feature = "opentelemetry")]
use crate::words::trace;

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
    pub(super) client: &'a Client,
    pub(super) connection: Option<&'a mut PgConnection>,
    max_wait: Option<Duration>,
    pub(super) jobs: Vec<NewJob>,
    actor: Option<String>,
}

impl<'a> InsertMany<'a> {
    pub(in crate::client) const fn new(client: &'a Client, jobs: Vec<NewJob>) -> Self {
        Self { client, connection: None, max_wait: None, jobs, actor: None }
    }

    /// Inserts in the caller's own transaction, or on any connection of the caller's.
    pub fn tx(mut self, connection: &'a mut PgConnection) -> Self {
        self.connection = Some(connection);
        self
    }

    /// Waits no longer than this for each uncommitted rival with the same key. Default: for ever,
    /// or the connection's `lock_timeout`.
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = Some(max_wait);
        self
    }

    /// Logs the insert with this name, in the same transaction: see the log of changes (`uniqueue_admin`). At most 200 bytes. Duplicates
    /// that changed nothing are not logged. Default: the insert is not logged.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }
}

impl<'a> IntoFuture for InsertMany<'a> {
    type Output = Result<Vec<Inserted>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, connection, max_wait, jobs, actor } = self;
            #[cfg(feature = "opentelemetry")]
            let jobs = {
                let mut jobs = jobs;
                trace::carry(&mut jobs);
                jobs
            };
            let is_callers = connection.is_some();
            let call = Call { client, connection, max_wait };
            let inserted = match actor {
                Some(actor) => {
                    let entry = actor::entry(actor, "insert", Value::Null)?;
                    Box::pin(insert_logged(call, jobs, entry)).await
                }
                None => call.run_in_middleware(jobs).await,
            };
            client.or_moved(is_callers, inserted).await
        })
    }
}
