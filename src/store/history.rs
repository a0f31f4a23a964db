//! The history of jobs.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Statements, query, settle};
use crate::error::Result;

/// Writes a batch of counts. A batch that was written before is not written again.
pub(crate) async fn write_history(
    connection: &mut PgConnection,
    statements: &Statements,
    writer: Uuid,
    batch: i64,
    minutes: &Value,
) -> Result<()> {
    // Where the role's isolation level is above READ COMMITTED, a row that another process wrote meanwhile is an error.
    settle!(true, connection, send_history(connection, statements, writer, batch, minutes));
    Ok(())
}

async fn send_history(
    connection: &mut PgConnection,
    statements: &Statements,
    writer: Uuid,
    batch: i64,
    minutes: &Value,
) -> Result<()> {
    query(&statements.write_history).bind(writer).bind(batch).bind(minutes).execute(connection).await?;
    Ok(())
}
