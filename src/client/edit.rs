//! One change: over the client's pool, or in the caller's own transaction.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use serde_json::Value;
use sqlx::PgConnection;

use super::request::ChangeCall;
use super::{Client, actor};
use crate::error::{AnswerFuture, Result};

/// A change to one key or to one periodic job, to be awaited. Made by [`Client::release_claim`] and by the methods of
/// [`Periodic`](crate::Periodic).
///
/// ```no_run
/// # use uniqueue::{Client, NewJob};
/// # async fn run(client: Client, job: NewJob) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = client.pool().begin().await?;
/// client.release_claim("rebuild_index").tx(&mut tx).await?;
/// client.insert(job).tx(&mut tx).await?;
/// tx.commit().await?;
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// [`Error::Database`](crate::Error::Database), and the errors of the method that made it.
#[must_use = "a change does nothing until it is awaited"]
pub struct Edit<'a, T> {
    client: &'a Client,
    connection: Option<&'a mut PgConnection>,
    actor: Option<String>,
    verb: &'static str,
    subject: Value,
    call: ChangeCall<T>,
    /// [`send`], as in [`Request`](super::Request).
    send: for<'r> fn(Edit<'r, T>) -> AnswerFuture<'r, T>,
}

impl<'a, T: Send + 'static> Edit<'a, T> {
    pub(super) fn new(
        client: &'a Client,
        verb: &'static str,
        subject: Value,
        call: impl for<'c> FnOnce(&'c Client, &'c mut PgConnection) -> AnswerFuture<'c, T> + Send + 'static,
    ) -> Self {
        Self { client, connection: None, actor: None, verb, subject, call: Box::new(call), send }
    }
}

impl<'a, T> Edit<'a, T> {
    /// Makes the change in the caller's own transaction, or on any other connection of the caller's. It is rolled back with
    /// the transaction.
    pub fn tx(self, connection: &'a mut PgConnection) -> Self {
        Self { connection: Some(connection), ..self }
    }

    /// Logs the change with this name, in the same transaction: see [`Client::change_log`]. At most 200 bytes. Default: the
    /// change is not logged.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }
}

impl<T> fmt::Debug for Edit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edit").field("client", self.client).finish_non_exhaustive()
    }
}

impl<'a, T> IntoFuture for Edit<'a, T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        (self.send)(self)
    }
}

fn send<T: Send + 'static>(edit: Edit<'_, T>) -> AnswerFuture<'_, T> {
    let Edit { client, connection, actor, verb, subject, call, send: _ } = edit;
    Box::pin(async move {
        let entry = actor.map(|actor| actor::entry(actor, verb, subject)).transpose()?;
        actor::make(client, connection, entry, call).await
    })
}
