//! The connection that the services share.

use std::future::Future;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool, Postgres, Transaction, pool::PoolConnection};

use super::LONGEST_TURN;
use crate::error::Result;
use crate::store;

/// One connection of the runner's own, so that the application's pool cannot stall the services.
/// Every statement on it is limited in time, so that none of them stalls the others for long. A
/// network that falls silent limits nothing: then the connection is [cut](SharedConnection::cut).
#[derive(Clone, Debug)]
pub(crate) struct SharedConnection {
    options: PgConnectOptions,
    /// Another one after each cut, since what is left of the old one may hang for as long as the
    /// operating system has patience.
    pool: Arc<RwLock<PgPool>>,
    has_session: bool,
}

impl SharedConnection {
    /// A connection that is opened when it is first needed. Without a session of its own (a pooler
    /// may give each transaction another one), limits are set in every transaction anew.
    pub(crate) fn new(options: PgConnectOptions, has_session: bool) -> Self {
        let pool = Arc::new(RwLock::new(one(&options, has_session)));
        Self { options, pool, has_session }
    }

    /// The connection, for the statements of one run.
    pub(crate) async fn session(&self) -> Result<Session> {
        // Nothing panics while it holds the lock.
        let pool = self.pool.read().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(if self.has_session {
            Session::Own(pool.acquire().await?)
        } else {
            Session::Transaction(store::begin_bounded(&pool).await?)
        })
    }

    /// Whether what is set for a session stays with it.
    pub(crate) const fn has_session(&self) -> bool {
        self.has_session
    }

    /// A connection for one run that takes long by nature.
    pub(crate) async fn another(&self) -> Result<PgConnection> {
        Ok(PgConnection::connect_with(&self.options).await?)
    }

    /// Waits for what is done over the connection, no longer than a turn over it may take: for services that also do
    /// something over [another](SharedConnection::another), which takes longer.
    pub(crate) async fn answer<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        match tokio::time::timeout(LONGEST_TURN, answer).await {
            Ok(answer) => answer,
            Err(_) => {
                self.cut();
                let problem = format!("no answer within {LONGEST_TURN:?}");
                Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, problem)).into())
            }
        }
    }

    /// Gives the connection up, and opens another when one is next needed.
    pub(crate) fn cut(&self) {
        *self.pool.write().unwrap_or_else(PoisonError::into_inner) = one(&self.options, self.has_session);
    }
}

fn one(options: &PgConnectOptions, has_session: bool) -> PgPool {
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(LONGEST_TURN);
    let pool = if has_session {
        pool.after_connect(|connection, _| Box::pin(async move { store::bound(connection).await }))
    } else {
        pool
    };
    pool.connect_lazy_with(options.clone())
}

/// The shared connection, in the hands of one service.
#[derive(Debug)]
pub(crate) enum Session {
    Own(PoolConnection<Postgres>),
    Transaction(Transaction<'static, Postgres>),
}

impl Session {
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        match self {
            Self::Own(connection) => connection,
            Self::Transaction(transaction) => transaction,
        }
    }

    /// Makes what was done count. Without it a transaction's work is given back.
    pub(crate) async fn end(self) -> Result<()> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Transaction(transaction) => Ok(transaction.commit().await?),
        }
    }
}
