//! A second try where the role's default isolation level is above READ COMMITTED.
//!
//! Under `default_transaction_isolation = serializable` a single statement fails with 40001 when it meets a row that is
//! newer than its snapshot. The statements of this library resolve such races by themselves under READ COMMITTED.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres, Transaction};

use super::statement_limit::statement_timeout;
use crate::error::{AnswerFuture, Result};

/// Runs a call that changes nothing if it fails. If the connection is in no transaction of the caller's and the call fails
/// with 40001, runs it again in a transaction of its own, which is READ COMMITTED. `connection` names the argument of the
/// call that is replaced.
macro_rules! settle {
    ($is_own:expr, $connection:ident, $call:expr) => {{
        let answer = {
            let $connection = &mut *$connection;
            $call.await
        };
        match answer {
            Err(error) if $is_own && error.is_serialization_failure() => {
                let mut tx = $crate::store::begin_read_committed($connection).await?;
                let answer = {
                    let $connection = &mut *tx;
                    $call.await?
                };
                $crate::store::commit(tx).await?;
                answer
            }
            answer => answer?,
        }
    }};
}

/// The same for a call of which each statement may take this long, where the connection is in no transaction of the
/// caller's. `None`: as long as its own `statement_timeout` allows.
macro_rules! settle_within {
    ($timeout:expr, $is_own:expr, $connection:ident, $call:expr) => {
        if $is_own && $timeout.is_some() {
            let mut tx = $crate::store::begin_limited($connection, $timeout).await?;
            let answer = {
                let $connection = &mut *tx;
                $call.await?
            };
            $crate::store::commit(tx).await?;
            answer
        } else {
            $crate::store::settle!($is_own, $connection, $call)
        }
    };
}

pub(crate) use {settle, settle_within};

/// Begins a transaction in which no conflict with a newer row is an error.
pub(crate) fn begin_read_committed(connection: &mut PgConnection) -> AnswerFuture<'_, Transaction<'_, Postgres>> {
    Box::pin(async { Ok(connection.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await?) })
}

/// The same, in which each statement ends after this time. `None`: after the connection's own `statement_timeout`.
pub(crate) async fn begin_limited(
    connection: &mut PgConnection,
    timeout: Option<Duration>,
) -> Result<Transaction<'_, Postgres>> {
    let Some(timeout) = timeout else { return begin_read_committed(connection).await };
    let begin = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout =";
    Ok(connection.begin_with(AssertSqlSafe(format!("{begin} {}", statement_timeout(timeout)))).await?)
}

/// Commits a transaction.
pub(crate) fn commit(transaction: Transaction<'_, Postgres>) -> AnswerFuture<'_, ()> {
    Box::pin(async { Ok(transaction.commit().await?) })
}
