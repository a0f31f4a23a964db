//! The checks of `diagnose`, which are functions of the schema.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use sqlx::pool::PoolConnection;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres, Row, Transaction};

use super::{Statements, query};
use crate::error::Result;

/// Begins a read-only transaction with a statement timeout and a lock timeout. The settings end with the transaction,
/// so it works through a pooler as well.
pub(crate) async fn begin_check(
    connection: &mut PoolConnection<Postgres>,
    timeout: Duration,
) -> Result<Transaction<'_, Postgres>> {
    let timeout = timeout.as_millis().clamp(1, 3_600_000);
    let begin = format!(
        "BEGIN READ ONLY; SET LOCAL statement_timeout = {timeout}; SET LOCAL lock_timeout = {timeout}; \
         SET LOCAL idle_in_transaction_session_timeout = 0"
    );
    Ok(connection.begin_with(AssertSqlSafe(begin)).await?)
}

/// This session, as the database sees it.
#[derive(Debug, Deserialize)]
pub(crate) struct Itself {
    pub(crate) role: String,
    pub(crate) database: String,
    pub(crate) encoding: String,
    pub(crate) version: String,
    pub(crate) has_schema: bool,
    pub(crate) may_use: bool,
    pub(crate) sees_sessions: bool,
    /// How many sessions have statements that are hidden from this role.
    pub(crate) hidden_sessions: u64,
    pub(crate) is_standby: bool,
    /// The database's clock, in seconds since 1970.
    pub(crate) clock: f64,
}

pub(crate) async fn itself(connection: &mut PgConnection, statements: &Statements) -> Result<Itself> {
    let row = query(&statements.health_self).bind(statements.schema().quoted()).fetch_one(connection).await?;
    Ok(row.try_get::<Json<Itself>, _>(0)?.0)
}

/// The checks that the schema makes.
pub(crate) async fn checks(connection: &mut PgConnection, statements: &Statements) -> Result<Vec<String>> {
    Ok(query(&statements.health_checks).persistent(false).fetch_one(connection).await?.try_get(0)?)
}

/// Makes a check. Each finding is a JSON object.
pub(crate) async fn check<T: for<'de> Deserialize<'de> + Send + Unpin>(
    connection: &mut PgConnection,
    statements: &Statements,
    name: &str,
    thresholds: &Value,
) -> Result<Vec<T>> {
    let asking = query(&statements.health_check).bind(name).bind(Json(thresholds)).persistent(false);
    asking.fetch_all(connection).await?.iter().map(|row| Ok(row.try_get::<Json<T>, _>(0)?.0)).collect()
}
