//! Maintenance of the job table: promote, rescue, prune. The statements are planned for each call: they are rare, and a
//! plan that was made for a small table is wrong for a large one.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::row::Stored;
use super::{Query, Statements, interval, milliseconds, query};
use crate::error::Result;
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::state::JobState;

/// The result of a promotion.
#[derive(Debug)]
pub(crate) struct Promoted {
    pub(crate) promoted: i64,
    /// The time up to which due jobs were promoted.
    pub(crate) reached: OffsetDateTime,
    /// The time until the next job is due.
    pub(crate) next_in: Option<Duration>,
}

/// Makes up to `limit` due jobs available, of those that were due at `from` or later. With `only`, of these jobs.
pub(crate) async fn promote(
    connection: &mut PgConnection,
    statements: &Statements,
    limit: i64,
    from: Option<OffsetDateTime>,
    only: Option<&[Uuid]>,
) -> Result<Promoted> {
    let query = query(&statements.promote).persistent(false).bind(limit).bind(from);
    let row = query.bind(only).fetch_one(connection).await?;
    Ok(Promoted {
        promoted: row.try_get("promoted")?,
        reached: row.try_get::<Stored, _>("reached")?.0,
        next_in: row.try_get::<Option<i64>, _>("next_in")?.map(milliseconds),
    })
}

/// The jobs that [`promote`] finds, except those to `skip`.
pub(crate) async fn due_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    limit: i64,
    from: Option<OffsetDateTime>,
    skip: &[Uuid],
) -> Result<Vec<Uuid>> {
    let query = query(&statements.due_jobs).persistent(false).bind(limit).bind(from).bind(skip);
    ids(&query.fetch_all(connection).await?)
}

/// A job that was taken from a runner that died.
#[derive(Debug)]
pub(crate) struct Rescued {
    pub(crate) id: JobId,
    pub(crate) kind: Kind,
    pub(crate) queue: QueueName,
    /// The attempt that was lost.
    pub(crate) attempt: u16,
    /// `retryable`, or `discarded` for its crashes or when another job holds its key.
    pub(crate) state: JobState,
    /// The text of the job's last error.
    pub(crate) error: String,
}

/// Rescues up to `limit` jobs of dead runners. With `only`, of these jobs. Returns the rescued jobs, and the time until
/// the next lease can run out. A job is discarded after `max_crashes` in a row.
pub(crate) async fn rescue(
    connection: &mut PgConnection,
    statements: &Statements,
    limit: i64,
    only: Option<&[Uuid]>,
    max_crashes: u16,
) -> Result<(Vec<Rescued>, Option<Duration>)> {
    let query = query(&statements.rescue).persistent(false).bind(limit).bind(only).bind(i32::from(max_crashes));
    let rows = query.fetch_all(connection).await?;
    let next_in = rows.first().map(|row| row.try_get::<Option<i64>, _>("next_in")).transpose()?.flatten();
    let mut rescued = Vec::with_capacity(rows.len());
    for row in &rows {
        let Some(id) = row.try_get::<Option<Uuid>, _>("id")? else { continue };
        rescued.push(Rescued {
            id: JobId::from(id),
            kind: Kind::from_stored(row.try_get("kind")?),
            queue: QueueName::from_stored(row.try_get("queue")?),
            attempt: row.try_get::<i16, _>("attempt")?.max(0).unsigned_abs(),
            state: row.try_get::<&str, _>("state")?.parse()?,
            error: row.try_get("error")?,
        });
    }
    Ok((rescued, next_in.map(milliseconds)))
}

/// The jobs that [`rescue`] finds, except those to `skip`.
pub(crate) async fn lost_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    limit: i64,
    skip: &[Uuid],
) -> Result<Vec<Uuid>> {
    let query = query(&statements.lost_jobs).persistent(false).bind(limit).bind(skip);
    ids(&query.fetch_all(connection).await?)
}

/// A job that was discarded because it had not started in time.
#[derive(Debug)]
pub(crate) struct Expired {
    pub(crate) id: JobId,
    pub(crate) kind: Kind,
    pub(crate) queue: QueueName,
    pub(crate) attempt: u16,
    /// The last error of the job.
    pub(crate) error: String,
}

/// Discards up to `limit` jobs that have expired. With `only`, of these jobs. Returns them, and the time until the next
/// job expires.
pub(crate) async fn expire(
    connection: &mut PgConnection,
    statements: &Statements,
    limit: i64,
    only: Option<&[Uuid]>,
) -> Result<(Vec<Expired>, Option<Duration>)> {
    let query = query(&statements.expire).persistent(false).bind(limit).bind(only);
    let rows = query.fetch_all(connection).await?;
    let next_in = rows.first().map(|row| row.try_get::<Option<i64>, _>("next_in")).transpose()?.flatten();
    let mut expired = Vec::with_capacity(rows.len());
    for row in &rows {
        let Some(id) = row.try_get::<Option<Uuid>, _>("id")? else { continue };
        expired.push(Expired {
            id: JobId::from(id),
            kind: Kind::from_stored(row.try_get("kind")?),
            queue: QueueName::from_stored(row.try_get("queue")?),
            attempt: row.try_get::<i16, _>("attempt")?.max(0).unsigned_abs(),
            error: row.try_get("error")?,
        });
    }
    Ok((expired, next_in.map(milliseconds)))
}

/// The jobs that [`expire`] would discard, without the jobs in `skip`.
pub(crate) async fn expired_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    limit: i64,
    skip: &[Uuid],
) -> Result<Vec<Uuid>> {
    let query = query(&statements.expired_jobs).persistent(false).bind(limit).bind(skip);
    ids(&query.fetch_all(connection).await?)
}

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
