//! Connections of a pool, which go back only if they answer.

use std::io;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgConnectOptions;
use sqlx::{PgPool, Postgres};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use super::time_limit::{CHECK_TIMEOUT, is_missing, lives};
use crate::error::{Error, Result};

/// A connection of a pool, which goes back only if it answers.
///
/// A pool asks a connection that is given back whether it lives, and sqlx waits for that answer without a limit. A
/// connection that fell silent during a statement, whose caller gave up, would take its place in the pool for ever.
#[derive(Debug)]
pub(crate) struct PooledConnection {
    connection: Option<PoolConnection<Postgres>>,
    /// Whether the pool [checks what is given back](super::time_limit::checking_returns) itself.
    is_checked: bool,
    /// Whether it does not go back.
    is_at_fault: bool,
}

impl PooledConnection {
    pub(crate) const fn new(connection: PoolConnection<Postgres>, is_checked: bool) -> Self {
        Self { connection: Some(connection), is_checked, is_at_fault: false }
    }

    /// Passes an answer on. A connection whose answer did not come, or whose session is [at fault](Error::is_of_session), is
    /// closed, and its place in the pool is free.
    pub(crate) fn settle<T>(mut self, answer: Result<T>) -> Result<T> {
        self.note(answer.as_ref().err());
        answer
    }

    /// Notes the error of an answer, which decides whether the connection goes back to its pool.
    pub(crate) fn note(&mut self, error: Option<&Error>) {
        self.is_at_fault |= error.is_some_and(|error| is_missing(error) || error.is_of_session());
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

/// How long a call waits for a connection before it asks whether the server refuses them.
const REFUSED_AFTER: Duration = Duration::from_millis(100);

/// Takes a connection of a place's pool. If the server refuses connections, the place is down, and the call fails at once. The
/// pool alone would try again until its limit is over.
pub(crate) async fn acquire_of_place(pool: &PgPool) -> Result<PoolConnection<Postgres>> {
    let options = pool.connect_options();
    tokio::select! {
        acquired = pool.acquire() => Ok(acquired?),
        refused = refusal(&options) => Err(sqlx::Error::Io(refused).into()),
    }
}

/// Resolves if the server refuses a connection.
async fn refusal(options: &PgConnectOptions) -> io::Error {
    tokio::time::sleep(REFUSED_AFTER).await;
    if options.get_socket().is_some() || options.get_host().starts_with('/') {
        return std::future::pending().await;
    }
    match TcpStream::connect((options.get_host(), options.get_port())).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => error,
        _ => std::future::pending().await,
    }
}
