//! The leases of the maintenance services, and the limits of their statements.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Executor, PgConnection, PgPool, Postgres, Row, Transaction};
use uuid::Uuid;

use super::{Statements, interval, milliseconds, query};
use crate::error::Result;

/// What a statement of maintenance may cost: it takes small batches and skips what is locked, so
/// one that comes near these limits is stuck, and the services that share the connection wait. To
/// compile them would cost more than to run them.
const BOUNDS: &str = "SET statement_timeout = '5s'; SET lock_timeout = '1s'; SET jit = off";
const BOUNDS_OF_TRANSACTION: &str =
    "BEGIN; SET LOCAL statement_timeout = '5s'; SET LOCAL lock_timeout = '1s'; SET LOCAL jit = off";

/// A plan is made once, and never by what a table is like that moment: one that was made when the table was
/// empty would read all of it, until the next ANALYZE, however large it grew. (Without `jit = off` the price put
/// on reading a table would have such a plan compiled.)
const PLANS: &str = "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SET jit = off";

/// Has every statement of a connection of one's own planned once, by index, and ended by the server when it takes
/// longer than this.
pub(crate) async fn plan_by_index(connection: &mut PgConnection, longest: Duration) -> Result<()> {
    let settings = AssertSqlSafe(format!("{PLANS}; {}", statement_timeout(longest)));
    connection.execute(sqlx::raw_sql(settings)).await?;
    Ok(())
}

/// Has the server end every statement of a connection of one's own that takes longer than this.
pub(crate) async fn end_after(connection: &mut PgConnection, longest: Duration) -> Result<()> {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(statement_timeout(longest)))).await?;
    Ok(())
}

/// At least a millisecond, since zero is no limit; and no more than PostgreSQL takes.
fn statement_timeout(longest: Duration) -> String {
    let milliseconds = i32::try_from(longest.as_millis()).unwrap_or(i32::MAX).max(1);
    format!("SET statement_timeout = {milliseconds}")
}

/// Limits every statement of a connection of one's own.
pub(crate) async fn bound(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    connection.execute(sqlx::raw_sql(BOUNDS)).await.map(|_| ())
}

/// Begins a transaction with the same limits, where the session may be another's by the next
/// statement.
pub(crate) async fn begin_bounded(pool: &PgPool) -> Result<Transaction<'static, Postgres>> {
    Ok(pool.begin_with(BOUNDS_OF_TRANSACTION).await?)
}

/// Takes or extends the lease of a service. `None`: it is the holder's now; else how long it is
/// another's.
pub(crate) async fn take_service(
    connection: &mut PgConnection,
    statements: &Statements,
    service: &str,
    holder: Uuid,
    runner: &str,
    term: Duration,
) -> Result<Option<Duration>> {
    let row = query(&statements.take_service)
        .persistent(false)
        .bind(service)
        .bind(holder)
        .bind(runner)
        .bind(interval(term))
        .fetch_one(connection)
        .await?;
    if row.try_get("is_held")? {
        return Ok(None);
    }
    Ok(Some(row.try_get::<Option<i64>, _>("free_in")?.map_or(Duration::ZERO, milliseconds)))
}

/// Gives the lease of a service up.
pub(crate) async fn release_service(
    connection: &mut PgConnection,
    statements: &Statements,
    service: &str,
    holder: Uuid,
) -> Result<()> {
    query(&statements.release_service).persistent(false).bind(service).bind(holder).execute(connection).await?;
    Ok(())
}
