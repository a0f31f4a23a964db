//! Simulated time: every stored time moves back.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::error::Result;
use crate::store::{Statements, interval, query};

/// Moves every time in the schema back, and the windows of later keys ahead, in one transaction.
pub(crate) async fn shift_times(connection: &mut PgConnection, statements: &Statements, by: Duration) -> Result<()> {
    let mut transaction = connection.begin().await?;
    // A transaction that a test left open must cause an error, not a hanging test.
    sqlx::query("SET LOCAL lock_timeout = '10s'").execute(&mut *transaction).await?;
    let rows = query(&statements.time_shifts).bind(statements.schema().as_str()).fetch_all(&mut transaction).await?;
    for row in &rows {
        let statement: String = row.try_get("statement")?;
        sqlx::query(AssertSqlSafe(statement)).bind(interval(by)).execute(&mut *transaction).await?;
    }
    let window = query(&statements.window_shift).bind(interval(by)).fetch_one(&mut transaction).await?;
    let statement: String = window.try_get("statement")?;
    sqlx::query(AssertSqlSafe(statement)).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(())
}
