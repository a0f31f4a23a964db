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
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgConnection, PgPool, Postgres};

use crate::error::{Error, Result};

/// One for the producer, one for the completer's line, one for what waits aside.
const CONNECTIONS: u32 = 3;

/// How long a connection is used. The pool hands them out in turns, so that none is ever idle for
/// long; by this, those that are not needed any more go, and an idle runner comes down to one.
const LIFETIME: Duration = Duration::from_secs(60);

/// Where a runner fetches and hands in results.
pub(super) struct Desk {
    options: PgConnectOptions,
    pool: RwLock<Arc<PgPool>>,
    patience: Duration,
}

impl Desk {
    /// A desk that waits no longer than this for any answer.
    pub(super) fn new(options: PgConnectOptions, patience: Duration) -> Self {
        Self { pool: RwLock::new(open(&options, patience)), options, patience }
    }

    /// A connection for one statement, whose answer is then [settled](DeskConnection::settle).
    pub(super) async fn connection(&self) -> Result<DeskConnection> {
        let pool = self.pool();
        match pool.acquire().await {
            Ok(connection) => Ok(DeskConnection { connection, is_answered: false }),
            Err(error) => {
                self.leave(&pool);
                Err(error.into())
            }
        }
    }

    /// Goes on with another pool. One whose connections fell silent on their way back into it, where sqlx
    /// asks them once more, would wait for them for as long as the operating system does.
    fn leave(&self, pool: &Arc<PgPool>) {
        // Nothing panics while it holds the lock.
        let mut current = self.pool.write().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&current, pool) {
            *current = open(&self.options, self.patience);
        }
    }

    fn pool(&self) -> Arc<PgPool> {
        Arc::clone(&self.pool.read().unwrap_or_else(PoisonError::into_inner))
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

    /// Closes what is open, as far as it answers.
    pub(super) async fn close(&self) {
        let _ = tokio::time::timeout(self.patience / 4, self.pool().close()).await;
    }
}

fn open(options: &PgConnectOptions, patience: Duration) -> Arc<PgPool> {
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).max_lifetime(LIFETIME).acquire_timeout(patience);
    Arc::new(pool.connect_lazy_with(options.clone()))
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
