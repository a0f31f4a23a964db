//! Statistics of a queue.

use std::time::Duration;

use sqlx::{PgConnection, Row};
use time::OffsetDateTime;

use super::{Statements, interval, query};
use crate::error::Result;
use crate::stats::{Finished, FinishedJob};

/// The number of jobs that are read where no index serves.
const LOOK_AT: i64 = 20_000;

/// The throughput of the live runners by their last heartbeats, per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paces {
    pub(crate) runners: u64,
    pub(crate) completed: f64,
    pub(crate) failed: f64,
    /// `None`: no runner has reported yet.
    pub(crate) over: Option<Duration>,
}

/// The throughput of the live runners.
pub(crate) async fn stats_pace(connection: &mut PgConnection, statements: &Statements) -> Result<Paces> {
    let row = query(&statements.stats_pace).fetch_one(connection).await?;
    let over: Option<f64> = row.try_get("over")?;
    Ok(Paces {
        runners: row.try_get::<i64, _>("runners")?.unsigned_abs(),
        completed: row.try_get("completed")?,
        failed: row.try_get("failed")?,
        over: over.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
    })
}

/// The number of jobs inserted within a time, and the part of that time that the read jobs cover.
pub(crate) async fn stats_inserted(
    connection: &mut PgConnection,
    statements: &Statements,
    within: Duration,
) -> Result<(u64, Duration)> {
    let row = query(&statements.stats_inserted).bind(interval(within)).bind(LOOK_AT).fetch_one(connection).await?;
    let inserted: i64 = row.try_get("inserted")?;
    let reach = row.try_get::<Option<f64>, _>("reach")?.and_then(|reach| Duration::try_from_secs_f64(reach).ok());
    // All jobs that were read are younger, so there may be more: the rate is that of their own time.
    let seen = if inserted >= LOOK_AT { reach.unwrap_or(within).min(within) } else { within };
    Ok((inserted.unsigned_abs(), seen))
}

/// How long the jobs that finished last waited and ran.
pub(crate) async fn stats_finished(
    connection: &mut PgConnection,
    statements: &Statements,
    sample: i64,
) -> Result<Option<Finished>> {
    // Not prepared: a generic plan would not know the limits.
    let query = query(&statements.stats_finished).persistent(false).bind(LOOK_AT).bind(sample);
    let row = query.fetch_one(connection).await?;
    let seconds = |column| Ok::<_, sqlx::Error>(row.try_get::<Option<Vec<f64>>, _>(column)?.unwrap_or_default());
    let length = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let at = |seconds: f64| OffsetDateTime::UNIX_EPOCH.saturating_add(time::Duration::saturating_seconds_f64(seconds));
    let jobs = seconds("finalized")?.into_iter().zip(seconds("waits")?).zip(seconds("runs")?);
    let job =
        |((finalized, wait), run)| FinishedJob { finalized_at: at(finalized), wait: length(wait), run: length(run) };
    Ok(Finished::of(jobs.map(job).collect()))
}
