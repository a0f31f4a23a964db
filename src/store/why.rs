//! Why jobs wait.

use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{Statements, query};
use crate::error::Result;
use crate::words::ident::{JobId, QueueName};
use crate::words::why::{FirstJob, Obstacle, ObstacleCode};

/// The obstacles that keep a job from starting. Empty: there is no such job.
pub(crate) async fn why(connection: &mut PgConnection, statements: &Statements, id: JobId) -> Result<Vec<Obstacle>> {
    let rows = query(&statements.why).bind(id.as_uuid()).fetch_all(connection).await?;
    rows.iter().map(obstacle).collect()
}

/// The first obstacle of each of these jobs that exists.
pub(crate) async fn why_first(
    connection: &mut PgConnection,
    statements: &Statements,
    ids: &[JobId],
) -> Result<Vec<(JobId, Obstacle)>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let rows = query(&statements.why_first).bind(ids).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((job(row)?, obstacle(row)?))).collect()
}

/// The obstacles of the first available job of a queue. `None`: no job is available.
pub(crate) async fn why_queue(
    connection: &mut PgConnection,
    statements: &Statements,
    queue: &QueueName,
) -> Result<Option<FirstJob>> {
    let rows = query(&statements.why_queue).bind(queue.as_str()).fetch_all(connection).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let obstacles = rows.iter().map(obstacle).collect::<Result<_>>()?;
    Ok(Some(FirstJob { id: job(first)?, obstacles }))
}

fn job(row: &PgRow) -> Result<JobId> {
    Ok(JobId::from(row.try_get::<Uuid, _>("id")?))
}

/// The obstacle in the columns `code`, `reason`, `remedy` and `details`.
pub(super) fn obstacle(row: &PgRow) -> Result<Obstacle> {
    Ok(Obstacle {
        code: obstacle_code(row)?,
        reason: row.try_get("reason")?,
        remedy: row.try_get("remedy")?,
        details: row.try_get::<Json<_>, _>("details")?.0,
    })
}

/// The code in the column `code`.
fn obstacle_code(row: &PgRow) -> Result<ObstacleCode> {
    let code: &str = row.try_get("code")?;
    let unknown = || sqlx::Error::Decode(format!("unknown code of an obstacle: {code}").into());
    Ok(ObstacleCode::named(code).ok_or_else(unknown)?)
}
