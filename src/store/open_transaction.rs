//! Whether a connection is at rest: without a transaction that somebody left open.
//!
//! sqlx 0.9 leaves one behind when the future of its `begin` is dropped on the way: the transaction has begun, nobody
//! will end it, and the connection goes back to its pool. What is sent over it next is answered, and never committed.

use sqlx::{Connection, Error, PgConnection};

/// Asks, in one round trip that takes the place of a ping. `false`: the transaction that was open is on its way to be rolled
/// back; close the connection.
pub(crate) async fn is_at_rest(connection: &mut PgConnection) -> sqlx::Result<bool> {
    // Begins nothing. sqlx says so, unless the server says that something has begun.
    match connection.begin_with("SELECT").await {
        Err(Error::BeginFailed) => Ok(true),
        Ok(_) => Ok(false),
        // One that has failed already answers nothing any more.
        Err(Error::Database(error)) if error.code().as_deref() == Some("25P02") => Ok(false),
        Err(error) => Err(error),
    }
}
