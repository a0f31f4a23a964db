//! Turns: of those who fetch many jobs of a queue two go on at once.

use std::time::Duration;

use sqlx::{Executor, PgConnection, Row};

use super::{Statements, interval, query};
use crate::error::Result;

/// Begins a transaction and waits in it for a turn at a queue, for about `patience` at most. `true`: it came, and is over
/// when the transaction ends, which the fetch does that is told of it; a connection on which this or that fails, or is
/// not waited for, must be closed. `false`: it did not, and the transaction is over.
pub(crate) async fn begin_turn(
    connection: &mut PgConnection,
    statements: &Statements,
    queue: &str,
    patience: Duration,
) -> Result<bool> {
    // Whatever the role's default: what the fetch sees must be from after the wait.
    connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    let query = query(&statements.take_turn).bind(queue).bind(interval(patience));
    let is_taken: bool = query.fetch_one(&mut *connection).await?.try_get("is_taken")?;
    if !is_taken {
        end_turn(connection).await?;
    }
    Ok(is_taken)
}

/// Ends the turn, and makes the fetch count.
pub(super) async fn end_turn(connection: &mut PgConnection) -> Result<()> {
    connection.execute("COMMIT").await?;
    Ok(())
}
