//! Runners and their leases.

use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::{Statements, interval, query};
use crate::error::Result;

/// Enters a runner with one lease term to live.
pub(crate) async fn register_runner(
    connection: &mut PgConnection,
    statements: &Statements,
    id: Uuid,
    name: &str,
    queues: &[String],
    term: Duration,
) -> Result<()> {
    query(&statements.register_runner)
        .bind(id)
        .bind(name)
        .bind(queues)
        .bind(interval(term))
        .execute(connection)
        .await?;
    Ok(())
}

/// Extends a lease by one term. `false`: it is lost.
pub(crate) async fn extend_lease(
    connection: &mut PgConnection,
    statements: &Statements,
    id: Uuid,
    term: Duration,
) -> Result<bool> {
    let extended = query(&statements.extend_lease).bind(id).bind(interval(term)).execute(connection).await?;
    Ok(extended.rows_affected() == 1)
}

/// Says whether the runner sleeps and wants to be woken.
pub(crate) async fn set_runner_idle(
    connection: &mut PgConnection,
    statements: &Statements,
    id: Uuid,
    idle: bool,
) -> Result<()> {
    query(&statements.set_runner_idle).bind(id).bind(idle).execute(connection).await?;
    Ok(())
}

/// Takes out a runner that stopped in order.
pub(crate) async fn remove_runner(connection: &mut PgConnection, statements: &Statements, id: Uuid) -> Result<()> {
    query(&statements.remove_runner).bind(id).execute(connection).await?;
    Ok(())
}

/// Takes out runners that died long ago and left nothing behind.
pub(crate) async fn remove_dead_runners(connection: &mut PgConnection, statements: &Statements) -> Result<()> {
    query(&statements.remove_dead_runners).execute(connection).await?;
    Ok(())
}
