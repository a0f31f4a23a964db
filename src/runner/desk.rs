//! The runner's own connections for fetches and results, apart from the application's pool.
//!
//! Not the pool's, for two reasons. An application may hold all of its connections for as long as it
//! likes. And work can be dropped at any `.await`: where that is sqlx's `begin`, the transaction has
//! begun and nobody ends it, so the connection goes back to the pool with it open. A fetch over such
//! a connection would never commit: its jobs would run, for nobody to see.
//!
//! Invariants:
//! - What is sent over these connections is a transaction by itself, so none is ever left open.
//! - A connection on which a statement failed, or was not waited for to its end, is closed, and
//!   whatever hangs of it hangs alone.
//! - A database that does not answer within a lease counts as one that cannot be reached.

use std::future::Future;
use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgConnection, PgPool, Postgres};

use crate::error::{Error, Result};

/// One for the producer, one for the completer's line, one for what waits aside.
const CONNECTIONS: u32 = 3;

/// Where a runner fetches and hands in results.
pub(super) struct Desk {
    pool: PgPool,
    patience: Duration,
}

impl Desk {
    /// A desk that waits no longer than this for any answer.
    pub(super) fn new(options: PgConnectOptions, patience: Duration) -> Self {
        let pool =
            PgPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(patience).connect_lazy_with(options);
        Self { pool, patience }
    }

    /// A connection for one statement, whose answer is then [settled](DeskConnection::settle).
    pub(super) async fn connection(&self) -> Result<DeskConnection> {
        Ok(DeskConnection { connection: self.pool.acquire().await?, is_answered: false })
    }

    /// Waits for a statement's answer, no longer than a lease.
    pub(super) async fn answer<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        match tokio::time::timeout(self.patience, answer).await {
            Ok(answer) => answer,
            Err(_) => {
                let problem = format!("no answer within {:?}", self.patience);
                Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, problem)).into())
            }
        }
    }

    /// Closes what is open.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

/// A connection that is closed rather than used again, unless the server answered on it.
pub(super) struct DeskConnection {
    connection: PoolConnection<Postgres>,
    is_answered: bool,
}

impl DeskConnection {
    /// Hands the answer on, and lets the connection be used again if it is the server's own.
    pub(super) fn settle<T>(mut self, answer: Result<T>) -> Result<T> {
        self.is_answered = matches!(&answer, Ok(_) | Err(Error::Database(sqlx::Error::Database(_))));
        answer
    }
}

impl Deref for DeskConnection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for DeskConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

impl Drop for DeskConnection {
    fn drop(&mut self) {
        if !self.is_answered {
            self.connection.close_on_drop();
        }
    }
}
