//! What keeps the table in order: promote, rescue, prune. Planned anew each time: they are rare, and
//! a plan kept from when the table was small would not do when it has grown.

use std::time::Duration;

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{Statements, interval, query};
use crate::error::Result;

/// Makes up to `limit` due jobs available. Answers how many it was.
pub(crate) async fn promote(connection: &mut PgConnection, statements: &Statements, limit: i64) -> Result<i64> {
    let row = query(&statements.promote).persistent(false).bind(limit).fetch_optional(connection).await?;
    Ok(row.map_or(Ok(0), |row| row.try_get("promoted"))?)
}

/// Brings back up to `limit` jobs of dead runners. Answers how many it was.
pub(crate) async fn rescue(connection: &mut PgConnection, statements: &Statements, limit: i64) -> Result<i64> {
    let row = query(&statements.rescue).persistent(false).bind(limit).fetch_optional(connection).await?;
    Ok(row.map_or(Ok(0), |row| row.try_get("rescued"))?)
}

/// How long final jobs are kept. `None`: for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    pub(crate) completed: Option<Duration>,
    pub(crate) cancelled: Option<Duration>,
    pub(crate) discarded: Option<Duration>,
}

/// Walks `limit` ids on from `after` and deletes what is past its retention. Answers how many it
/// deleted, and where to go on, if the walk is not over.
pub(crate) async fn prune(
    connection: &mut PgConnection,
    statements: &Statements,
    after: Uuid,
    limit: i64,
    keep: Keep,
) -> Result<(i64, Option<Uuid>)> {
    let row = query(&statements.prune)
        .persistent(false)
        .bind(after)
        .bind(limit)
        .bind(keep.completed.map(interval))
        .bind(keep.cancelled.map(interval))
        .bind(keep.discarded.map(interval))
        .fetch_one(connection)
        .await?;
    Ok((row.try_get("pruned")?, row.try_get("reached")?))
}
