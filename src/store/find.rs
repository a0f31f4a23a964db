//! Statements of the testing kit: it finds jobs, starts one for a worker, and asks what a rate or a hold keeps back.

use std::time::Duration;

use serde_json::Value;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::row::{count, job_row};
use super::{Statements, interval, query};
use crate::error::Result;
use crate::ident::{JobId, QueueName};
use crate::job::JobRow;
use crate::state::JobState;

/// The values that the testing kit expects of a job. `None`: any value matches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Criteria {
    pub(crate) kind: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) args: Option<Value>,
    pub(crate) meta: Option<Value>,
    pub(crate) state: Option<JobState>,
    pub(crate) priority: Option<i16>,
    pub(crate) scheduled_at: Option<OffsetDateTime>,
    pub(crate) scheduled_in: Option<Duration>,
    pub(crate) unique_key: Option<String>,
    pub(crate) id: Option<JobId>,
    pub(crate) group_key: Option<String>,
}

/// A job that was found, with the criteria that it does not meet.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) job: JobRow,
    pub(crate) misses: Vec<String>,
    /// The number of rows without the limit.
    pub(crate) total: i64,
}

/// The jobs that miss the fewest criteria, those first. With `matching_only` the jobs that meet all of them.
pub(crate) async fn find_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    criteria: &Criteria,
    matching_only: bool,
    limit: Option<i64>,
) -> Result<Vec<Found>> {
    let rows = query(&statements.find_jobs)
        .bind(&criteria.kind)
        .bind(&criteria.queue)
        .bind(&criteria.args)
        .bind(&criteria.meta)
        .bind(criteria.state.map(JobState::as_str))
        .bind(criteria.priority)
        .bind(criteria.scheduled_at)
        .bind(criteria.scheduled_in.map(interval))
        .bind(&criteria.unique_key)
        .bind(criteria.id.map(JobId::as_uuid))
        .bind(matching_only)
        .bind(limit)
        .bind(&criteria.group_key)
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| Ok(Found { job: job_row(row)?, misses: row.try_get("misses")?, total: row.try_get("total")? }))
        .collect()
}

/// Starts a job for a worker at a given attempt, and returns its row.
pub(crate) async fn start_job(
    connection: &mut PgConnection,
    statements: &Statements,
    id: JobId,
    attempt: i16,
    worker: Uuid,
) -> Result<JobRow> {
    let row = query(&statements.start_job).bind(id.as_uuid()).bind(attempt).bind(worker).fetch_one(connection).await?;
    job_row(&row)
}

/// The job that several queues would run first, its queue and its crashes.
pub(crate) async fn next_job(
    connection: &mut PgConnection,
    statements: &Statements,
    queues: &[&str],
    kinds: Option<&[String]>,
) -> Result<Option<(JobId, String, u16)>> {
    let row = query(&statements.next_job).bind(queues).bind(kinds).fetch_optional(connection).await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some((JobId::from(row.try_get::<Uuid, _>("id")?), row.try_get("queue")?, count(row.try_get("crashes")?))))
}

/// How long a rate or a hold lets no job of a queue start, or of its group. `None`: one may start now.
pub(crate) async fn held_back(
    connection: &mut PgConnection,
    statements: &Statements,
    queue: &QueueName,
    group: Option<&str>,
) -> Result<Option<Duration>> {
    let row = query(&statements.held_back).bind(queue.as_str()).bind(group).fetch_one(connection).await?;
    let next_in: Option<f64> = row.try_get("next_in")?;
    Ok(next_in.filter(|seconds| *seconds > 0.0).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
}
