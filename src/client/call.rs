//! One call of the schema: a look-up or a change, over the client's pool or in the caller's own transaction.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;
use sqlx::PgConnection;

use super::connections::look_up::Source;
use super::connections::time_limit;
use super::{Client, actor};
use crate::error::{AnswerFuture, Result};
use crate::store::{self, LogEntry};

/// A call of the schema, to be awaited: a look-up such as [`Client::job`], or a change such as [`Client::release_claim`].
///
/// ```no_run
/// # use std::time::Duration;
/// # use uniqueue::{Client, JobFilter, NewJob};
/// # async fn run(client: Client, job: NewJob) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = client.pool().begin().await?;
/// client.release_claim("rebuild_index").actor("anna").tx(&mut tx).await?;
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
#[must_use = "a call is not sent until it is awaited"]
pub struct Call<'a, T> {
    client: &'a Client,
    source: Source<'a>,
    actor: Option<String>,
    /// The verb and the subject of a change, for the log of changes. `None`: a look-up.
    change: Option<(&'static str, Value)>,
    /// How many statements it sends at most.
    statements: u32,
    ask: Ask<T>,
    /// [`send`], which is compiled with the method that makes the call. It is for any lifetime, so that a call can be used
    /// where one of a shorter lifetime is expected.
    send: for<'r> fn(Call<'r, T>) -> AnswerFuture<'r, T>,
}

/// With the actor of a change.
type Ask<T> = Box<dyn for<'c> FnOnce(&'c Client, &'c mut PgConnection, Option<String>) -> AnswerFuture<'c, T> + Send>;

impl<'a, T: Send + 'static> Call<'a, T> {
    /// A look-up of a crate's or a program's own. The function gets a connection on which [`Client::schema`] is asked. With
    /// [`timeout`](Self::timeout) it runs in a transaction that is rolled back.
    pub fn new(
        client: &'a Client,
        ask: impl for<'c> FnOnce(&'c Client, &'c mut PgConnection) -> AnswerFuture<'c, T> + Send + 'static,
    ) -> Self {
        let ask: Ask<T> = Box::new(move |client, connection, _| ask(client, connection));
        Self { client, source: Source::default(), actor: None, change: None, statements: 1, ask, send }
    }

    /// A change of a crate's or a program's own. With an [`actor`](Self::actor) it is logged with this verb and this subject, a
    /// JSON object, in the same transaction.
    pub fn change(
        client: &'a Client,
        verb: &'static str,
        subject: Value,
        ask: impl for<'c> FnOnce(&'c Client, &'c mut PgConnection) -> AnswerFuture<'c, T> + Send + 'static,
    ) -> Self {
        Self::change_by(client, verb, subject, move |client, connection, _| ask(client, connection))
    }

    /// As [`change`](Self::change), of a change that stores its actor.
    pub(super) fn change_by(
        client: &'a Client,
        verb: &'static str,
        subject: Value,
        ask: impl for<'c> FnOnce(&'c Client, &'c mut PgConnection, Option<String>) -> AnswerFuture<'c, T> + Send + 'static,
    ) -> Self {
        let (source, change) = (Source::default(), Some((verb, subject)));
        Self { client, source, actor: None, change, statements: 1, ask: Box::new(ask), send }
    }
}

impl<'a, T> Call<'a, T> {
    /// Sets the largest number of statements that the call sends. Default: 1. Each may take the whole
    /// [`timeout`](Self::timeout).
    pub fn of_statements(self, statements: u32) -> Self {
        Self { statements, ..self }
    }

    /// Sends it in the caller's own transaction, or on any other connection of the caller's. A look-up sees the
    /// transaction's changes, and a change is rolled back with the transaction.
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

    /// Logs a change with this name, in the same transaction: see the log of changes (`uniqueue_admin`). At most 200 bytes. Default: the
    /// change is not logged. A look-up ignores it.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }
}

impl<T> fmt::Debug for Call<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("client", self.client).field("change", &self.change).finish_non_exhaustive()
    }
}

impl<'a, T> IntoFuture for Call<'a, T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        (self.send)(self)
    }
}

fn send<T: Send + 'static>(call: Call<'_, T>) -> AnswerFuture<'_, T> {
    let Call { client, source, actor, change, statements, ask, send: _ } = call;
    let is_callers = source.connection.is_some();
    let Some((verb, subject)) = change else {
        return Box::pin(async move {
            // A server that answers ends the statements itself.
            let limit = source.timeout.filter(|_| !is_callers);
            let limit = limit.map(|limit| limit.saturating_mul(statements) + time_limit::CHECK_TIMEOUT);
            let mut connection = source.open(client).await?;
            let answer = match limit {
                Some(limit) => time_limit::within(limit, ask(client, &mut connection, None)).await,
                None => ask(client, &mut connection, None).await,
            };
            connection.end(client, answer.as_ref().err()).await?;
            client.or_moved(is_callers, answer).await
        });
    };
    Box::pin(async move {
        let entry = actor.clone().map(|actor| actor::entry(actor, verb, subject)).transpose()?;
        make(client, source, entry, actor, ask).await
    })
}

/// Makes a change, and logs it in the same transaction where it has an actor.
async fn make<T>(
    client: &Client,
    source: Source<'_>,
    entry: Option<LogEntry>,
    actor: Option<String>,
    ask: Ask<T>,
) -> Result<T> {
    if source.connection.is_some() {
        let mut connection = source.open(client).await?;
        let answer = change_and_log(client, &mut connection, entry, actor, ask).await;
        connection.end(client, answer.as_ref().err()).await?;
        return answer;
    }
    let mut connection = client.connection().await?;
    let making = async {
        if entry.is_none() && source.timeout.is_none() {
            return ask(client, &mut connection, actor).await;
        }
        let mut transaction = store::begin_limited(&mut connection, source.timeout).await?;
        let answer = change_and_log(client, &mut transaction, entry, actor, ask).await?;
        store::commit(transaction).await?;
        Ok(answer)
    };
    let answer = making.await;
    client.or_moved(false, connection.settle(answer)).await
}

async fn change_and_log<T>(
    client: &Client,
    connection: &mut PgConnection,
    entry: Option<LogEntry>,
    actor: Option<String>,
    ask: Ask<T>,
) -> Result<T> {
    let answer = ask(client, connection, actor).await?;
    if let Some(entry) = entry {
        client.store(connection).log_change(&entry, None).await?;
    }
    Ok(answer)
}
