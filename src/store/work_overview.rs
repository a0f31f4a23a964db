//! Lists for live displays.

use std::time::Duration;

use sqlx::types::Json;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::row::Stored;
use super::{Statements, query};
use crate::error::Result;
use crate::ident::{JobId, Kind, QueueName};
use crate::overview::{FailingCode, FailingError, FailingKind, RunningJobInfo};

/// The jobs that have run for longest.
pub(crate) async fn running_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    limit: u32,
) -> Result<Vec<RunningJobInfo>> {
    let rows = query(&statements.watch_running).bind(i64::from(limit)).fetch_all(connection).await?;
    let info = |row: &sqlx::postgres::PgRow| {
        let running_for: Option<f64> = row.try_get("running_for")?;
        Ok(RunningJobInfo {
            id: JobId::from(row.try_get::<Uuid, _>("id")?),
            kind: Kind::from_stored(row.try_get("kind")?),
            queue: QueueName::from_stored(row.try_get("queue")?),
            attempt: row.try_get::<i16, _>("attempt")?.max(0).unsigned_abs(),
            max_attempts: row.try_get::<i16, _>("max_attempts")?.max(0).unsigned_abs(),
            running_for: running_for.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default()),
            runner: row.try_get("runner_name")?,
            runner_is_alive: row.try_get("runner_is_alive")?,
            progress: row.try_get("progress")?,
            unique_key: row.try_get("unique_key")?,
        })
    };
    rows.iter().map(info).collect()
}

/// The kinds with failed jobs. The kind with the most failed jobs comes first.
pub(crate) async fn failing_kinds(connection: &mut PgConnection, statements: &Statements) -> Result<Vec<FailingKind>> {
    let rows = query(&statements.watch_failing).fetch_all(connection).await?;
    let info = |row: &sqlx::postgres::PgRow| {
        let queues: Vec<String> = row.try_get("queues")?;
        Ok(FailingKind {
            kind: Kind::from_stored(row.try_get("kind")?),
            queues: queues.iter().map(|name| QueueName::from_stored(name)).collect(),
            retryable: row.try_get::<i64, _>("retryable")?.unsigned_abs(),
            discarded: row.try_get::<i64, _>("discarded")?.unsigned_abs(),
            last_failed_at: row.try_get::<Option<Stored>, _>("last_failed_at")?.map(|at| at.0),
            last_error: row.try_get("last_error")?,
            last_job: row.try_get::<Option<Uuid>, _>("last_job")?.map(JobId::from),
        })
    };
    rows.iter().map(info).collect()
}

/// The failed jobs by kind and code. The code with the most failed jobs comes first.
pub(crate) async fn failing_codes(connection: &mut PgConnection, statements: &Statements) -> Result<Vec<FailingCode>> {
    let rows = query(&statements.watch_failing_codes).fetch_all(connection).await?;
    let info = |row: &sqlx::postgres::PgRow| {
        Ok(FailingCode {
            kind: Kind::from_stored(row.try_get("kind")?),
            code: row.try_get("code")?,
            retryable: row.try_get::<i64, _>("retryable")?.unsigned_abs(),
            discarded: row.try_get::<i64, _>("discarded")?.unsigned_abs(),
            last_failed_at: row.try_get::<Option<Stored>, _>("last_failed_at")?.map(|at| at.0),
            last_error: row.try_get("last_error")?,
            last_job: row.try_get::<Option<Uuid>, _>("last_job")?.map(JobId::from),
        })
    };
    rows.iter().map(info).collect()
}

/// The failed jobs of a kind by the pattern of their last error.
pub(crate) async fn failing_errors(
    connection: &mut PgConnection,
    statements: &Statements,
    kind: String,
) -> Result<Vec<FailingError>> {
    let rows = query(&statements.failing_errors).bind(kind).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get::<Json<FailingError>, _>(0)?.0)).collect()
}
