//! One look-up: over the client's pool, or in the caller's own transaction.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use sqlx::PgConnection;

use super::look_up::Source;
use super::{Client, time_limit};
use crate::error::{AnswerFuture, Result};

pub(super) type ChangeCall<T> = Box<dyn for<'c> FnOnce(&'c Client, &'c mut PgConnection) -> AnswerFuture<'c, T> + Send>;

/// A look-up, to be awaited. Made by methods such as [`Client::job`].
///
/// ```no_run
/// # use std::time::Duration;
/// # use uniqueue::{Client, JobFilter, NewJob};
/// # async fn run(client: Client, job: NewJob) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = client.pool().begin().await?;
/// let inserted = client.insert(job).tx(&mut tx).await?;
/// assert!(client.job(inserted.id()).tx(&mut tx).await?.is_some());
/// tx.commit().await?;
///
/// let counting = client.count_jobs(JobFilter::new().kind("email.send"), 1_000).timeout(Duration::from_secs(2));
/// match counting.await {
///     Err(error) if error.is_statement_timeout() => println!("not counted within 2 s"),
///     count => println!("{}", count?),
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// [`Error::Database`](crate::Error::Database), and the errors of the method that made it.
#[must_use = "a look-up is not sent until it is awaited"]
pub struct Request<'a, T, O = ()> {
    client: &'a Client,
    source: Source<'a>,
    /// The options of the question.
    pub(super) options: O,
    /// How many statements it sends at most.
    statements: u32,
    ask: Ask<T, O>,
    /// [`send`], which is compiled with the method that makes the request. It is for any lifetime, so that a request can be used
    /// where one of a shorter lifetime is expected.
    send: for<'r> fn(Request<'r, T, O>) -> AnswerFuture<'r, T>,
}

type Ask<T, O> = Box<dyn for<'c> FnOnce(&'c Client, &'c mut PgConnection, O) -> AnswerFuture<'c, T> + Send>;

impl<'a, T: Send + 'static> Request<'a, T> {
    pub(super) fn new(
        client: &'a Client,
        call: impl for<'c> FnOnce(&'c Client, &'c mut PgConnection) -> AnswerFuture<'c, T> + Send + 'static,
    ) -> Self {
        Self::with(client, (), move |client, connection, ()| call(client, connection))
    }
}

impl<'a, T: Send + 'static, O: Send + 'static> Request<'a, T, O> {
    /// A look-up with options, which methods of its own set before it is awaited.
    pub(super) fn with(
        client: &'a Client,
        options: O,
        ask: impl for<'c> FnOnce(&'c Client, &'c mut PgConnection, O) -> AnswerFuture<'c, T> + Send + 'static,
    ) -> Self {
        Self { client, source: Source::default(), options, statements: 1, ask: Box::new(ask), send }
    }
}

impl<'a, T, O> Request<'a, T, O> {
    /// Sets the largest number of statements that the look-up sends.
    pub(super) fn of_statements(self, statements: u32) -> Self {
        Self { statements, ..self }
    }

    /// Asks in the caller's own transaction, or on any other connection of the caller's. It sees the transaction's
    /// changes.
    pub fn tx(mut self, connection: &'a mut PgConnection) -> Self {
        self.source.connection = Some(connection);
        self
    }

    /// How long each statement may take. Default: the connection's own `statement_timeout`. At least 1 ms.
    ///
    /// A statement that takes longer ends with an error, for which
    /// [`is_statement_timeout`](crate::Error::is_statement_timeout) is true. With [`tx`](Self::tx) such an error aborts the
    /// caller's transaction, as any error of the database does.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.source.timeout = Some(timeout);
        self
    }
}

impl<T, O> fmt::Debug for Request<'_, T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("client", self.client).finish_non_exhaustive()
    }
}

impl<'a, T, O> IntoFuture for Request<'a, T, O> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        (self.send)(self)
    }
}

fn send<T: Send + 'static, O: Send + 'static>(request: Request<'_, T, O>) -> AnswerFuture<'_, T> {
    let Request { client, source, options, statements, ask, send: _ } = request;
    Box::pin(async move {
        let is_callers = source.connection.is_some();
        // A server that answers ends the statements itself.
        let limit = source.timeout.filter(|_| !is_callers);
        let limit = limit.map(|limit| limit.saturating_mul(statements) + time_limit::CHECK_TIMEOUT);
        let mut connection = source.open(client).await?;
        let answer = match limit {
            Some(limit) => time_limit::within(limit, ask(client, &mut connection, options)).await,
            None => ask(client, &mut connection, options).await,
        };
        connection.end(client, answer.as_ref().err()).await?;
        client.or_moved(is_callers, answer).await
    })
}
