//! Answers that never come.
//!
//! A pulled cable, a firewall that drops packets or a host that disappears closes no connection. The client hears nothing,
//! sqlx sets no TCP keepalive, and a statement would wait for ever. So each statement of the library's own is awaited
//! [within a limit](within), and a connection whose answer did not come is closed at once
//! ([`PooledConnection`](super::pooled_connection::PooledConnection)), without a farewell. An idle connection is checked
//! within [`CHECK_TIMEOUT`] before it is used, and a new one opened within [`CONNECT_TIMEOUT`].
//!
//! The limits are on this side, so that they hold without the server. Where the server is alive and slow, its own
//! `statement_timeout` comes first, and the connection stays.

use std::future::Future;
use std::io;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection};

use crate::error::{AnswerFuture, Error, Result};

/// How long a check of an idle connection waits for its answer.
pub(crate) const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// How long opening a connection takes at most.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a short query about the schema, or a definition, waits for its answer.
pub(crate) const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for an answer within a limit.
pub(crate) async fn within<T>(limit: Duration, answer: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(no_answer(limit)),
    }
}

/// The error of an answer that did not come within the limit.
pub(crate) fn no_answer(limit: Duration) -> Error {
    let problem = format!("no answer within {limit:?}");
    sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, problem)).into()
}

/// Whether an error is that of an answer that did not come.
pub(crate) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Database(sqlx::Error::Io(problem)) if problem.kind() == io::ErrorKind::TimedOut)
}

/// Opens a connection.
pub(crate) fn connect(options: &PgConnectOptions) -> AnswerFuture<'_, PgConnection> {
    Box::pin(within(CONNECT_TIMEOUT, async { Ok(PgConnection::connect_with(options).await?) }))
}

/// Whether an idle connection still answers.
pub(crate) async fn lives(connection: &mut PgConnection, limit: Duration) -> bool {
    within(limit, async { Ok(connection.ping().await?) }).await.is_ok()
}

/// A pool that checks an idle connection within [`CHECK_TIMEOUT`].
pub(crate) fn checking(pool: PgPoolOptions) -> PgPoolOptions {
    pool.test_before_acquire(false).before_acquire(|connection, _| Box::pin(check(connection)))
}

/// A pool that checks a connection within [`CHECK_TIMEOUT`] before it takes it back.
pub(crate) fn checking_returns(pool: PgPoolOptions) -> PgPoolOptions {
    pool.after_release(|connection, _| Box::pin(check(connection)))
}

/// Whether a connection of a pool lives. With an error the pool drops it. To close it would wait for its other end again.
async fn check(connection: &mut PgConnection) -> sqlx::Result<bool> {
    if lives(connection, CHECK_TIMEOUT).await { Ok(true) } else { Err(sqlx::Error::PoolTimedOut) }
}
