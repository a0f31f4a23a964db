//! Answers that never come.
//!
//! A pulled cable, a firewall that drops packets or a host that disappears closes no connection. The client hears nothing,
//! sqlx sets no TCP keepalive, and a statement would wait for ever. So each statement of the library's own is awaited
//! [within a limit](within), and a connection whose answer did not come is closed at once ([`settle`]), without a farewell.
//! An idle connection is checked within [`CHECK_TIMEOUT`] before it is used, and a new one opened within [`CONNECT_TIMEOUT`].
//!
//! The limits are on this side, so that they hold without the server. Where the server is alive and slow, its own
//! `statement_timeout` comes first, and the connection stays.

use std::future::Future;
use std::io;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool, Postgres};
use tokio::runtime::Handle;

use crate::error::{Error, Result};

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

/// Passes an answer on. A connection of a pool whose answer did not come, or whose session is
/// [at fault](Error::is_of_session), is closed, and its place in the pool is free.
pub(crate) fn settle<T>(mut connection: PooledConnection, answer: Result<T>) -> Result<T> {
    connection.note(&answer);
    answer
}

/// A connection of a pool, which goes back only if it answers.
///
/// A pool asks a connection that is given back whether it lives, and sqlx waits for that answer without a limit. A
/// connection that fell silent during a statement, whose caller gave up, would take its place in the pool for ever.
#[derive(Debug)]
pub(crate) struct PooledConnection {
    connection: Option<PoolConnection<Postgres>>,
    /// Whether the pool [checks what is given back](checking_returns) itself.
    is_checked: bool,
    /// Whether it does not go back.
    is_at_fault: bool,
}

impl PooledConnection {
    pub(crate) const fn new(connection: PoolConnection<Postgres>, is_checked: bool) -> Self {
        Self { connection: Some(connection), is_checked, is_at_fault: false }
    }

    /// Notes an answer, which decides whether the connection goes back to its pool.
    pub(crate) fn note<T>(&mut self, answer: &Result<T>) {
        self.is_at_fault |= answer.as_ref().is_err_and(|error| is_missing(error) || error.is_of_session());
    }

    /// Drops the connection without a farewell. Its place in the pool is free.
    pub(crate) fn cut(mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection.detach());
        }
    }
}

impl Deref for PooledConnection {
    type Target = PoolConnection<Postgres>;

    #[expect(clippy::expect_used, reason = "taken only where the value ends")]
    fn deref(&self) -> &PoolConnection<Postgres> {
        self.connection.as_ref().expect("a connection")
    }
}

impl DerefMut for PooledConnection {
    #[expect(clippy::expect_used, reason = "taken only where the value ends")]
    fn deref_mut(&mut self) -> &mut PoolConnection<Postgres> {
        self.connection.as_mut().expect("a connection")
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        if self.is_at_fault {
            drop(connection.detach());
            return;
        }
        // Without a runtime the pool cannot take it back, either.
        if !self.is_checked
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move {
                if !lives(&mut connection, CHECK_TIMEOUT).await {
                    drop(connection.detach());
                }
            });
        }
    }
}

/// Opens a connection.
pub(crate) async fn connect(options: &PgConnectOptions) -> Result<PgConnection> {
    within(CONNECT_TIMEOUT, async { Ok(PgConnection::connect_with(options).await?) }).await
}

/// Whether an idle connection still answers.
pub(crate) async fn lives(connection: &mut PgConnection, limit: Duration) -> bool {
    within(limit, async { Ok(connection.ping().await?) }).await.is_ok()
}

/// A pool that checks an idle connection within [`CHECK_TIMEOUT`]. sqlx's own check has no limit.
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

/// Takes a connection of a pool. Where a pool of the application's checks an idle connection that fell silent, that
/// check is given up after [`CHECK_TIMEOUT`], and the pool drops the connection.
pub(crate) async fn acquire(pool: &PgPool, is_checking: bool) -> Result<PoolConnection<Postgres>> {
    let began = Instant::now();
    // With no idle connection the pool waits for one that is in use, or opens one: as long as its own limit allows.
    while !is_checking && pool.num_idle() > 0 && began.elapsed() < pool.options().get_acquire_timeout() {
        match tokio::time::timeout(CHECK_TIMEOUT, pool.acquire()).await {
            Ok(acquired) => return Ok(acquired?),
            Err(_) => tracing::debug!("the pool had no connection in time, trying again"),
        }
    }
    Ok(pool.acquire().await?)
}
