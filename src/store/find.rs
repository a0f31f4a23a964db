//! What the testing kit looks for, and how it puts a job into a worker's hands.

use std::time::Duration;

use serde_json::Value;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::row::job_row;
use super::{Statements, interval, query};
use crate::error::Result;
use crate::ident::JobId;
use crate::job::JobRow;
use crate::state::JobState;

/// What a job should be like. `None`: anything goes.
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
}

/// A job, and the criteria that it does not meet.
#[derive(Debug)]
pub(crate) struct Sought {
    pub(crate) job: JobRow,
    pub(crate) misses: Vec<String>,
    /// How many rows there are in all, whatever the limit.
    pub(crate) total: i64,
}

/// The jobs that come nearest to the criteria, nearest first. With `fitting_only` those that meet them.
pub(crate) async fn seek(
    connection: &mut PgConnection,
    statements: &Statements,
    criteria: &Criteria,
    fitting_only: bool,
    limit: Option<i64>,
) -> Result<Vec<Sought>> {
    let rows = query(&statements.sought_jobs)
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
        .bind(fitting_only)
        .bind(limit)
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| Ok(Sought { job: job_row(row)?, misses: row.try_get("misses")?, total: row.try_get("total")? }))
        .collect()
}

/// Puts a job into the hands of a worker, and answers with its row.
pub(crate) async fn seat_job(
    connection: &mut PgConnection,
    statements: &Statements,
    id: JobId,
    attempt: i16,
    worker: Uuid,
) -> Result<JobRow> {
    let row = query(&statements.seat_job).bind(id.as_uuid()).bind(attempt).bind(worker).fetch_one(connection).await?;
    job_row(&row)
}

/// The job that comes first over several queues, and its queue.
pub(crate) async fn next_job(
    connection: &mut PgConnection,
    statements: &Statements,
    queues: &[&str],
    kinds: &[String],
) -> Result<Option<(JobId, String)>> {
    let row = query(&statements.next_job).bind(queues).bind(kinds).fetch_optional(connection).await?;
    row.map(|row| Ok((JobId::from(row.try_get::<Uuid, _>("id")?), row.try_get("queue")?))).transpose()
}
