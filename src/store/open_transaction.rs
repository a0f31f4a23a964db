//! Detecting a transaction that is still open on an idle connection.
//!
//! sqlx 0.9 leaves a transaction open when the future of its `begin` is dropped midway. The connection returns to its
//! pool with that transaction. Later statements on the connection succeed, and are never committed.

use sqlx::{Connection, Error, PgConnection};

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
