//! The time limit of look-ups.

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Row, Transaction};

use super::{Statements, query};
use crate::error::Result;

/// Begins a transaction that changes nothing and whose statements each end after this time.
pub(crate) async fn begin_look_up(pool: &PgPool, timeout: Duration) -> Result<Transaction<'static, Postgres>> {
    let timeout = statement_timeout(timeout);
    Ok(pool.begin_with(AssertSqlSafe(format!("BEGIN READ ONLY; SET LOCAL statement_timeout = {timeout}"))).await?)
}

/// Limits the next statements of a connection, and returns its limit before.
pub(crate) async fn limit_statements(
    connection: &mut PgConnection,
    statements: &Statements,
    timeout: Duration,
) -> Result<String> {
    let query = query(&statements.limit_statements).bind(statement_timeout(timeout).to_string());
    Ok(query.fetch_one(connection).await?.try_get("before")?)
}

/// Gives a connection the limit that it had before.
pub(crate) async fn restore_statement_limit(
    connection: &mut PgConnection,
    statements: &Statements,
    before: &str,
) -> Result<()> {
    query(&statements.limit_statements).bind(before).execute(connection).await?;
    Ok(())
}

/// In milliseconds. At least one, since zero means no limit. At most the largest value of PostgreSQL.
pub(super) fn statement_timeout(timeout: Duration) -> i32 {
    i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1)
}
