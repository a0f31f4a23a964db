//! The history of jobs.

use std::time::Duration;

use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::row::Stored;
use super::{Statements, interval, query, settle};
use crate::error::Result;
use crate::history::{Deploy, Histogram, History, HistoryCounts, HistoryPoint, KindHistory, QueueHistory};
use crate::ident::{Kind, QueueName};

/// Which rows of `history` are read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HistorySpan {
    Minute,
    Hour,
    Day,
}

impl HistorySpan {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }
}

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

/// Adds up to `limit` counts of calls in SQL to the history, and deletes old rows. Returns `limit` if there may be more.
pub(crate) async fn tend_history(connection: &mut PgConnection, statements: &Statements, limit: i32) -> Result<i32> {
    let row = query(&statements.tend_history).persistent(false).bind(limit).fetch_one(connection).await?;
    Ok(row.try_get("tended")?)
}

/// The history of the last time in steps.
pub(crate) async fn history(
    connection: &mut PgConnection,
    statements: &Statements,
    span: HistorySpan,
    kind: Option<&Kind>,
    queue: Option<&QueueName>,
    since: Duration,
    step: Duration,
) -> Result<History> {
    // The sums over kinds and queues have rows of their own. The statement makes the sum of one kind over its queues.
    let queue = queue.map(QueueName::as_str).or(if kind.is_none() { Some("") } else { None });
    let step_seconds = i64::try_from(step.as_secs()).unwrap_or(i64::MAX);
    let rows = query(&statements.history)
        .persistent(false)
        .bind(span.as_str())
        .bind(kind.map_or("", Kind::as_str))
        .bind(queue)
        .bind(interval(since))
        .bind(step_seconds)
        .fetch_all(&mut *connection)
        .await?;
    let Some(first) = rows.first() else { return Err(sqlx::Error::RowNotFound.into()) };
    let (Stored(since), Stored(until)) = (first.try_get("since")?, first.try_get("until")?);
    let steps = (until - since).whole_seconds() / step_seconds + 1;
    let start = |place: i64| since + time::Duration::seconds(place * step_seconds);
    let empty = |place| HistoryPoint { at: start(place), counts: HistoryCounts::default() };
    let mut points: Vec<_> = (0..steps).map(empty).collect();
    for row in &rows {
        let Some(Stored(at)) = row.try_get::<Option<Stored>, _>("at")? else { continue };
        let place = (at - since).whole_seconds() / step_seconds;
        if let Some(point) = usize::try_from(place).ok().and_then(|place| points.get_mut(place)) {
            point.counts.merge(&counts(row, true)?);
        }
    }
    Ok(History { since, until, step, points, deploys: deploys(connection, statements, since).await? })
}

async fn deploys(connection: &mut PgConnection, statements: &Statements, since: OffsetDateTime) -> Result<Vec<Deploy>> {
    let rows = query(&statements.deploys).bind(since).fetch_all(connection).await?;
    let deploy = |row: &PgRow| Ok(Deploy { at: row.try_get::<Stored, _>("at")?.0, version: row.try_get("version")? });
    rows.iter().map(deploy).collect()
}

/// The history of each kind, the kinds with the most failures first.
pub(crate) async fn history_by_kind(
    connection: &mut PgConnection,
    statements: &Statements,
    span: HistorySpan,
    since: Duration,
    limit: u32,
) -> Result<Vec<KindHistory>> {
    let query = query(&statements.history_by_kind).persistent(false);
    let rows = query.bind(span.as_str()).bind(interval(since)).bind(i64::from(limit)).fetch_all(connection).await?;
    let of_kind =
        |row: &PgRow| Ok(KindHistory { kind: Kind::from_stored(row.try_get("kind")?), counts: counts(row, false)? });
    rows.iter().map(of_kind).collect()
}

/// The history of each queue, by name.
pub(crate) async fn history_by_queue(
    connection: &mut PgConnection,
    statements: &Statements,
    span: HistorySpan,
    since: Duration,
) -> Result<Vec<QueueHistory>> {
    let query = query(&statements.history_by_queue).persistent(false);
    let rows = query.bind(span.as_str()).bind(interval(since)).fetch_all(connection).await?;
    by_queue(&rows)
}

/// The history of each queue since it was first used, by name.
pub(crate) async fn history_totals(
    connection: &mut PgConnection,
    statements: &Statements,
) -> Result<Vec<QueueHistory>> {
    by_queue(&query(&statements.history_totals).fetch_all(connection).await?)
}

/// The sums of rows that come by queue.
fn by_queue(rows: &[PgRow]) -> Result<Vec<QueueHistory>> {
    let mut queues: Vec<QueueHistory> = Vec::new();
    for row in rows {
        let (name, counts): (&str, _) = (row.try_get("queue")?, counts(row, true)?);
        match queues.last_mut() {
            Some(last) if last.queue.as_str() == name => last.counts.merge(&counts),
            _ => queues.push(QueueHistory { queue: QueueName::from_stored(name), counts }),
        }
    }
    Ok(queues)
}

fn counts(row: &PgRow, has_times: bool) -> Result<HistoryCounts> {
    let count = |column| Ok::<_, sqlx::Error>(row.try_get::<i64, _>(column)?.unsigned_abs());
    let histogram = |counts: &str, sum: &str| {
        if !has_times {
            return Ok(Histogram::default());
        }
        Ok::<_, sqlx::Error>(Histogram::of_stored(&row.try_get::<Vec<i64>, _>(counts)?, row.try_get(sum)?))
    };
    Ok(HistoryCounts {
        inserted: count("inserted")?,
        duplicates: count("duplicates")?,
        completed: count("completed")?,
        failed: count("failed")?,
        discarded: count("discarded")?,
        wait: histogram("waits", "wait_seconds")?,
        run: histogram("runs", "run_seconds")?,
    })
}
