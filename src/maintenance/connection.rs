//! The connection that the services share.

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool, Postgres, Transaction, pool::PoolConnection};

use crate::error::Result;
use crate::store;

/// One connection of the runner's own, so that the application's pool cannot stall the services.
/// Every statement on it is limited in time, so that none of them stalls the others for long.
#[derive(Clone, Debug)]
pub(crate) struct SharedConnection {
    pool: PgPool,
    options: PgConnectOptions,
    has_session: bool,
}

impl SharedConnection {
    /// A connection that is opened when it is first needed. Without a session of its own (a pooler
    /// may give each transaction another one), limits are set in every transaction anew.
    pub(crate) fn new(options: PgConnectOptions, has_session: bool) -> Self {
        let pool = PgPoolOptions::new().max_connections(1);
        let pool = if has_session {
            pool.after_connect(|connection, _| Box::pin(async move { store::bound(connection).await }))
        } else {
            pool
        };
        Self { pool: pool.connect_lazy_with(options.clone()), options, has_session }
    }

    /// The connection, for the statements of one run.
    pub(crate) async fn session(&self) -> Result<Session> {
        Ok(if self.has_session {
            Session::Own(self.pool.acquire().await?)
        } else {
            Session::Transaction(store::begin_bounded(&self.pool).await?)
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
