//! Statements of remote workers.

use std::time::Duration;

use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::postgres::types::PgInterval;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::error::Result;
use crate::store::row::{Stored, count, errors, meta, run_number, value};
use crate::store::{Statements, interval, milliseconds, query};
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::remote::{FetchedJob, FinishedRun, HeldRun, JobResult, JobRun, Maintained};
use crate::words::state::JobState;

/// The jobs that a remote worker asks for.
#[derive(Debug)]
pub(crate) struct RemoteFetch {
    pub(crate) queues: Vec<String>,
    pub(crate) worker: String,
    pub(crate) count: u32,
    pub(crate) kinds: Option<Vec<String>>,
    pub(crate) reserve: Duration,
    pub(crate) listens: bool,
}

/// Starts the next jobs of a remote worker.
pub(crate) async fn fetch_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    wanted: RemoteFetch,
) -> Result<Vec<FetchedJob>> {
    let RemoteFetch { queues, worker, count, kinds, reserve, listens } = wanted;
    let rows = query(&statements.fetch_jobs)
        .bind(queues)
        .bind(worker)
        .bind(i32::try_from(count).unwrap_or(i32::MAX))
        .bind(kinds)
        .bind(interval(reserve))
        .bind(listens)
        .fetch_all(connection)
        .await?;
    rows.iter().map(fetched).collect()
}

fn fetched(row: &PgRow) -> Result<FetchedJob> {
    let count_at =
        |place: usize| Ok::<_, sqlx::Error>(count(i16::try_from(row.try_get::<i32, _>(place)?).unwrap_or(0)));
    Ok(FetchedJob {
        run: run(row)?,
        kind: Kind::from_stored(row.try_get(2)?),
        queue: QueueName::from_stored(row.try_get(3)?),
        args: row.try_get(4)?,
        meta: meta(row, 5)?,
        attempt: count_at(6)?,
        max_attempts: count_at(7)?,
        priority: i16::try_from(row.try_get::<i32, _>(8)?).unwrap_or(0),
        crashes: count_at(9)?,
        created_at: row.try_get::<Stored, _>(10)?.0,
        scheduled_at: row.try_get::<Stored, _>(11)?.0,
        reserved_until: row.try_get::<Stored, _>(12)?.0,
        errors: errors(row, 13)?,
        progress: value(row, 14)?,
        unique_key: row.try_get(15)?,
        group_key: row.try_get(16)?,
        worker: row.try_get(17)?,
        timeout: row.try_get::<Option<i64>, _>(18)?.map(milliseconds),
    })
}

/// Ends runs.
pub(crate) async fn finish_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    results: &[JobResult],
) -> Result<Vec<FinishedRun>> {
    let runs: Vec<JobRun> = results.iter().map(|result| result.run).collect();
    let (ids, numbers) = arrays(&runs);
    let rows = query(&statements.finish_jobs)
        .bind(ids)
        .bind(numbers)
        .bind(results.iter().map(|result| result.outcome).collect::<Vec<_>>())
        .bind(given(results, |result| result.delay.map(interval)))
        .bind(given(results, |result| result.error.clone()))
        .bind(given(results, |result| text(&result.output)))
        .bind(given(results, |result| text(&result.progress)))
        .bind(given(results, |result| text(&result.details)))
        .fetch_all(connection)
        .await?;
    let finished = |row: &PgRow| {
        let run = run(row)?;
        if let Some(values) = row.try_get::<Option<&str>, _>(5)? {
            tracing::warn!(job.id = %run.id, values, "a result counts without the values that cannot be stored");
        }
        Ok(FinishedRun { run, counted: row.try_get(2)?, state: state(row, 3)?, locked: row.try_get(4)? })
    };
    rows.iter().map(finished).collect()
}

fn text(value: &Option<Value>) -> Option<String> {
    value.as_ref().map(Value::to_string)
}

/// A value of each result. `None`: no result has one.
fn given<T>(results: &[JobResult], of: impl Fn(&JobResult) -> Option<T>) -> Option<Vec<Option<T>>> {
    let values: Vec<_> = results.iter().map(of).collect();
    values.iter().any(Option::is_some).then_some(values)
}

/// Reserves running jobs anew.
pub(crate) async fn extend_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    runs: &[JobRun],
    reserve: Duration,
) -> Result<Vec<HeldRun>> {
    let (ids, numbers) = arrays(runs);
    let reserve: PgInterval = interval(reserve);
    let rows = query(&statements.extend_jobs).bind(ids).bind(numbers).bind(reserve).fetch_all(connection).await?;
    let held = |row: &PgRow| {
        let reserved_until = row.try_get::<Option<Stored>, _>(4)?.map(|at| at.0);
        Ok(HeldRun { run: run(row)?, held: row.try_get(2)?, state: state(row, 3)?, reserved_until })
    };
    rows.iter().map(held).collect()
}

/// Does the maintenance that is due.
pub(crate) async fn maintain_once(
    connection: &mut PgConnection,
    statements: &Statements,
    worker: &str,
) -> Result<Maintained> {
    let row = query(&statements.maintain).bind(worker).fetch_one(connection).await?;
    let count = |place: usize| Ok::<_, sqlx::Error>(row.try_get::<i64, _>(place)?.max(0).unsigned_abs());
    Ok(Maintained {
        promoted: count(0)?,
        rescued: count(1)?,
        pruned: count(2)?,
        released: count(3)?,
        expired: count(4)?,
        next_in: milliseconds(row.try_get(5)?),
    })
}

/// Deletes the rows of a remote worker that have no running job.
pub(crate) async fn stop_worker(connection: &mut PgConnection, statements: &Statements, worker: &str) -> Result<u64> {
    let row = query(&statements.stop_worker).bind(worker).fetch_one(connection).await?;
    Ok(row.try_get::<i32, _>(0)?.max(0).unsigned_abs().into())
}

fn arrays(runs: &[JobRun]) -> (Vec<Uuid>, Vec<i32>) {
    runs.iter().map(|run| (run.id.as_uuid(), i32::try_from(run.run).unwrap_or(i32::MAX))).unzip()
}

fn run(row: &PgRow) -> Result<JobRun> {
    Ok(JobRun { id: JobId::from(row.try_get::<Uuid, _>(0)?), run: run_number(row.try_get(1)?) })
}

fn state(row: &PgRow, place: usize) -> Result<Option<JobState>> {
    row.try_get::<Option<&str>, _>(place)?.map(|state| Ok(state.parse()?)).transpose()
}
