//! The connection that the services share.

use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sqlx::postgres::PgPoolOptions;
use sqlx::{PgConnection, PgPool};

use crate::client::connections::own_connections::OwnConnections;
use crate::client::connections::time_limit;
use crate::error::Result;
use crate::store;

/// The longest that a run may take. The server ends each statement after half of it, so a run that takes longer gets no
/// answer any more, or can go on in the next run.
pub(super) const LONGEST_RUN: Duration = Duration::from_secs(10);

/// One connection of the runner's own, so that the application's pool cannot stall the services.
/// Every statement on it has a timeout, so that no service blocks the others for long. The timeout
/// does nothing on a dead network: there the connection is [replaced](SharedConnection::replace).
#[derive(Clone, Debug)]
pub(crate) struct SharedConnection {
    own: OwnConnections,
    /// Replaced as a whole, since closing a dead connection can hang until the operating system
    /// gives up on it.
    pool: Arc<RwLock<PgPool>>,
    has_session: bool,
}

impl SharedConnection {
    /// A connection that is opened when it is first needed. Without a session of its own (behind a
    /// transaction pooler), every transaction sets its limits anew.
    pub(crate) fn new(own: OwnConnections, has_session: bool) -> Self {
        let pool = Arc::new(RwLock::new(pool_of_one(&own, has_session)));
        Self { own, pool, has_session }
    }

    /// Sends a statement over the connection.
    pub(super) async fn ask<T>(&self, statement: impl AsyncFnOnce(&mut PgConnection) -> Result<T>) -> Result<T> {
        // Nothing panics while it holds the lock.
        let pool = self.pool.read().unwrap_or_else(PoisonError::into_inner).clone();
        if self.has_session {
            return statement(&mut *pool.acquire().await?).await;
        }
        let mut transaction = store::begin_bounded(&pool).await?;
        let answer = statement(&mut transaction).await?;
        store::commit(transaction).await?;
        Ok(answer)
    }

    /// Whether session settings and session locks last between transactions.
    pub(crate) const fn has_session(&self) -> bool {
        self.has_session
    }

    /// Opens a connection for one run with long statements.
    pub(crate) async fn open_another(&self) -> Result<PgConnection> {
        time_limit::within(time_limit::CONNECT_TIMEOUT, self.own.open()).await
    }

    /// Waits for work over the connection, no longer than a run may take. Services that also work over
    /// [another](SharedConnection::open_another) connection may run longer than that.
    pub(crate) async fn within_a_run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match tokio::time::timeout(LONGEST_RUN, work).await {
            Ok(answer) => answer,
            Err(_) => {
                self.replace();
                Err(time_limit::no_answer(LONGEST_RUN))
            }
        }
    }

    /// Drops the connection. The next session opens a new one.
    pub(crate) fn replace(&self) {
        *self.pool.write().unwrap_or_else(PoisonError::into_inner) = pool_of_one(&self.own, self.has_session);
    }
}

fn pool_of_one(own: &OwnConnections, has_session: bool) -> PgPool {
    let checking = own.clone();
    time_limit::checking_returns(time_limit::checking(PgPoolOptions::new()))
        .max_connections(1)
        .acquire_timeout(LONGEST_RUN)
        .after_connect(move |connection, _| {
            let own = checking.clone();
            Box::pin(async move {
                own.check(connection).await?;
                if has_session { store::bound(connection).await } else { Ok(()) }
            })
        })
        .connect_lazy_with(own.options.clone())
}
