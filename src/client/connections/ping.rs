//! The check of a connection that was idle: a ping that waits no longer than [`CHECK_TIMEOUT`]. sqlx's own has no limit.

use std::time::Duration;

use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, PgConnection};

use super::time_limit::{CHECK_TIMEOUT, within};

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
