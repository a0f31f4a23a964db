//! Pruning of the job table. The statements are planned for each call: they are rare, and a
//! plan that was made for a small table is wrong for a large one.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{Query, Statements, interval, milliseconds, query};
use crate::error::Result;

/// How long final jobs are kept. `None`: for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetentionLimits {
    pub(crate) completed: Option<Duration>,
    pub(crate) cancelled: Option<Duration>,
    pub(crate) discarded: Option<Duration>,
}

impl RetentionLimits {
    fn bind_to(self, query: Query) -> Query {
        let Self { completed, cancelled, discarded } = self;
        query.bind(completed.map(interval)).bind(cancelled.map(interval)).bind(discarded.map(interval))
    }
}

/// The bounds of a round of pruning.
#[derive(Debug)]
pub(crate) struct PruneBounds {
    /// Jobs with ids between these two are too young to be deleted. `None`: every job is kept.
    pub(crate) young_from: Option<Uuid>,
    pub(crate) young_to: Uuid,
    /// The shortest retention of all.
    pub(crate) shortest: Option<Duration>,
    /// The retention of the queues, as text, to notice a change.
    pub(crate) settings: String,
}

/// The bounds of a round, by the database's clock.
pub(crate) async fn prune_bounds(
    connection: &mut PgConnection,
    statements: &Statements,
    keep: RetentionLimits,
) -> Result<PruneBounds> {
    let query = query(&statements.prune_bounds).persistent(false);
    let row = keep.bind_to(query).fetch_one(connection).await?;
    Ok(PruneBounds {
        young_from: row.try_get("young_from")?,
        young_to: row.try_get("young_to")?,
        shortest: row.try_get::<Option<i64>, _>("shortest")?.map(milliseconds),
        settings: row.try_get("settings")?,
    })
}

/// The first `limit` jobs of a range of ids, which includes `from` and `upto`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdRange {
    pub(crate) from: Uuid,
    pub(crate) upto: Uuid,
    pub(crate) limit: i64,
}

/// The result of pruning a range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pruned {
    pub(crate) deleted: i64,
    pub(crate) remaining: i64,
    /// The last id that was read, if the limit ended it.
    pub(crate) reached: Option<Uuid>,
    /// How long until a job that remains may be deleted.
    pub(crate) next_in: Option<Duration>,
}

/// Deletes the jobs of a range that are past their retention. Jobs that are not final count as if they may be
/// deleted after `open_for`.
pub(crate) async fn prune(
    connection: &mut PgConnection,
    statements: &Statements,
    range: IdRange,
    keep: RetentionLimits,
    open_for: Duration,
) -> Result<Pruned> {
    let IdRange { from, upto, limit } = range;
    let query = query(&statements.prune).persistent(false).bind(from).bind(upto).bind(limit);
    let row = keep.bind_to(query).bind(interval(open_for)).fetch_one(connection).await?;
    Ok(Pruned {
        deleted: row.try_get("pruned")?,
        remaining: row.try_get("remaining")?,
        reached: row.try_get("reached")?,
        next_in: row.try_get::<Option<i64>, _>("next_in")?.map(milliseconds),
    })
}

/// The jobs that [`prune`] reads, in the order of ids.
pub(crate) async fn jobs_in_range(
    connection: &mut PgConnection,
    statements: &Statements,
    range: IdRange,
) -> Result<Vec<Uuid>> {
    let IdRange { from, upto, limit } = range;
    let query = query(&statements.jobs_in_range).persistent(false).bind(from).bind(upto).bind(limit);
    ids(&query.fetch_all(connection).await?)
}

/// Deletes up to a thousand rows of groups whose times have passed. Returns their number.
pub(crate) async fn prune_groups(connection: &mut PgConnection, statements: &Statements) -> Result<i64> {
    Ok(query(&statements.prune_groups).persistent(false).fetch_one(connection).await?.try_get("pruned")?)
}

fn ids(rows: &[PgRow]) -> Result<Vec<Uuid>> {
    rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
}
