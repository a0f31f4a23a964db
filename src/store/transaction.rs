//! A second try where the role's default isolation level is above READ COMMITTED.
//!
//! Under `default_transaction_isolation = serializable` a single statement fails with 40001 when it meets a row that is
//! newer than its snapshot. The statements of this library resolve such races by themselves under READ COMMITTED.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, Error, PgConnection, PgPool, Postgres, Row, Transaction};

use super::{Store, query};
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

/// Begins a savepoint. `false`: the connection is in no transaction.
pub(crate) async fn begin_savepoint(connection: &mut PgConnection) -> Result<bool> {
    match sqlx::raw_sql("SAVEPOINT uniqueue_parts").execute(connection).await {
        Ok(_) => Ok(true),
        Err(Error::Database(error)) if error.code().as_deref() == Some("25P01") => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Ends the savepoint. `undoes`: what came after it is rolled back.
pub(crate) async fn end_savepoint(connection: &mut PgConnection, undoes: bool) -> Result<()> {
    if undoes {
        sqlx::raw_sql("ROLLBACK TO SAVEPOINT uniqueue_parts").execute(&mut *connection).await?;
    }
    sqlx::raw_sql("RELEASE SAVEPOINT uniqueue_parts").execute(connection).await?;
    Ok(())
}

/// Whether a transaction is open. Takes one round trip, as a ping does. `true`: its ROLLBACK is queued; close the
/// connection.
pub(crate) async fn has_open_transaction(connection: &mut PgConnection) -> sqlx::Result<bool> {
    // SELECT begins nothing: sqlx reports that as a failed begin, unless the server reports an open transaction.
    match connection.begin_with("SELECT").await {
        Err(Error::BeginFailed) => Ok(false),
        Ok(_) => Ok(true),
        // A transaction that has failed rejects every statement.
        Err(Error::Database(error)) if error.code().as_deref() == Some("25P02") => Ok(true),
        Err(error) => Err(error),
    }
}

/// Begins a transaction that changes nothing and whose statements each end after this time.
pub(crate) async fn begin_look_up(pool: &PgPool, timeout: Duration) -> Result<Transaction<'static, Postgres>> {
    let timeout = statement_timeout(timeout);
    Ok(pool.begin_with(AssertSqlSafe(format!("BEGIN READ ONLY; SET LOCAL statement_timeout = {timeout}"))).await?)
}

impl Store<'_> {
    /// Limits the next statements of a connection, and returns its limit before.
    pub(crate) async fn limit_statements(self, timeout: Duration) -> Result<String> {
        let query = query(&self.statements.limit_statements).bind(statement_timeout(timeout).to_string());
        Ok(query.fetch_one(self.connection).await?.try_get("before")?)
    }

    /// Gives a connection the limit that it had before.
    pub(crate) async fn restore_statement_limit(self, before: &str) -> Result<()> {
        query(&self.statements.limit_statements).bind(before).execute(self.connection).await?;
        Ok(())
    }
}

/// In milliseconds. At least one, since zero means no limit. At most the largest value of PostgreSQL.
pub(super) fn statement_timeout(timeout: Duration) -> i32 {
    i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1)
}
