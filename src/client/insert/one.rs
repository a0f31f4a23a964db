//! Inserting one job.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use sqlx::PgConnection;

use super::Client;
use super::many::InsertMany;
use crate::error::Result;
use crate::words::after::Parents;
use crate::words::ident::QueueName;
use crate::words::job::{Inserted, NewJob};
use crate::words::opts::{InsertOptions, insert_setters};

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
    many: InsertMany<'a>,
}

impl<'a> Insert<'a> {
    pub(in crate::client) fn new(client: &'a Client, job: NewJob) -> Self {
        Self { many: InsertMany::new(client, vec![job]) }
    }

    /// Inserts in the caller's own transaction, or on any connection of the caller's.
    pub fn tx(self, connection: &'a mut PgConnection) -> Self {
        Self { many: self.many.tx(connection) }
    }

    /// Waits no longer than this for an uncommitted rival with the same key. Default: for ever,
    /// or the connection's `lock_timeout`.
    pub fn max_wait(self, max_wait: Duration) -> Self {
        Self { many: self.many.max_wait(max_wait) }
    }

    /// Logs the insert with this name, in the same transaction: see the log of changes (`uniqueue_admin`). At most 200 bytes. Duplicates
    /// that changed nothing are not logged. Default: the insert is not logged.
    pub fn actor(self, actor: impl Into<String>) -> Self {
        Self { many: self.many.actor(actor) }
    }

    /// Runs the job after its parents have completed: see [`NewJob::after`].
    pub fn after(self, parents: impl Into<Parents>) -> Self {
        self.map_job(|job| job.after(parents))
    }

    /// Runs the job after its parents have ended, in any final state: see [`NewJob::after_final`].
    pub fn after_final(self, parents: impl Into<Parents>) -> Self {
        self.map_job(|job| job.after_final(parents))
    }

    /// Runs the job after its parents have ended, if one of them was cancelled or discarded: see [`NewJob::after_failed`].
    pub fn after_failed(self, parents: impl Into<Parents>) -> Self {
        self.map_job(|job| job.after_failed(parents))
    }

    fn map_job(mut self, map: impl FnOnce(NewJob) -> NewJob) -> Self {
        self.many.jobs = self.many.jobs.into_iter().next().map(map).into_iter().collect();
        self
    }

    pub(super) fn client(&self) -> &'a Client {
        self.many.client
    }

    pub(super) fn has_connection(&self) -> bool {
        self.many.connection.is_some()
    }

    pub(super) fn kind(&self) -> &str {
        self.many.jobs[0].kind()
    }

    /// The queue that the job goes to. It may be an invalid name, which the insert reports.
    pub(super) fn queue_name(&self) -> &str {
        let of_client = self.many.client.defaults().queue.as_deref();
        self.many.jobs[0].queue_name().or(of_client).unwrap_or(QueueName::DEFAULT)
    }

    fn options_mut(&mut self) -> &mut InsertOptions {
        // `new` put exactly one job in.
        &mut self.many.jobs[0].options
    }
}

insert_setters!(Insert<'a>);

impl<'a> IntoFuture for Insert<'a> {
    type Output = Result<Inserted>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let answers = self.many.into_future();
        Box::pin(async move {
            let mut answers = answers.await?;
            // One job in, one answer out.
            answers.pop().ok_or_else(|| sqlx::Error::RowNotFound.into())
        })
    }
}
