//! Parents, children and descendants of jobs.

use std::collections::HashMap;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{Statements, query};
use crate::error::Result;
use crate::words::after::{JobChild, JobParent};
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::state::JobState;

/// The jobs that these jobs run after, by the ids of the children.
pub(crate) async fn parents_of(
    connection: &mut PgConnection,
    statements: &Statements,
    ids: &[JobId],
) -> Result<HashMap<JobId, Vec<JobParent>>> {
    let ids: Vec<_> = ids.iter().map(|id| id.as_uuid()).collect();
    let rows = query(&statements.parents_of).bind(ids).fetch_all(connection).await?;
    let mut parents: HashMap<_, Vec<_>> = HashMap::new();
    for row in &rows {
        parents.entry(JobId::from(row.try_get::<Uuid, _>("child")?)).or_default().push(JobParent {
            id: job_id(row)?,
            kind: row.try_get::<Option<&str>, _>("kind")?.map(Kind::from_stored),
            state: state(row, "state")?,
            condition: row.try_get::<&str, _>("condition")?.parse()?,
            outcome: state(row, "outcome")?,
            output: row.try_get("output")?,
        });
    }
    Ok(parents)
}

/// Up to `limit` jobs that run after a job.
pub(crate) async fn children_of(
    connection: &mut PgConnection,
    statements: &Statements,
    id: JobId,
    limit: u32,
) -> Result<Vec<JobChild>> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let rows = query(&statements.children_of).bind(id.as_uuid()).bind(limit).fetch_all(connection).await?;
    let child = |row: &PgRow| {
        Ok(JobChild {
            id: job_id(row)?,
            kind: Kind::from_stored(row.try_get("kind")?),
            queue: QueueName::from_stored(row.try_get("queue")?),
            state: row.try_get::<&str, _>("state")?.parse()?,
            condition: row.try_get::<&str, _>("condition")?.parse()?,
            outcome: state(row, "outcome")?,
        })
    };
    rows.iter().map(child).collect()
}

/// The ids of these jobs, and of all jobs that run after them.
pub(crate) async fn descendants_of(
    connection: &mut PgConnection,
    statements: &Statements,
    ids: &[JobId],
) -> Result<Vec<JobId>> {
    let ids: Vec<_> = ids.iter().map(|id| id.as_uuid()).collect();
    let rows = query(&statements.descendants_of).bind(ids).fetch_all(connection).await?;
    rows.iter().map(job_id).collect()
}

/// The jobs that a retry of the graph of this job would change, with their new states.
pub(crate) async fn retry_graph_plan(
    connection: &mut PgConnection,
    statements: &Statements,
    id: JobId,
) -> Result<Vec<(JobId, JobState)>> {
    let rows = query(&statements.retry_graph_plan).bind(id.as_uuid()).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((job_id(row)?, row.try_get::<&str, _>("state")?.parse()?))).collect()
}

fn job_id(row: &PgRow) -> Result<JobId> {
    Ok(JobId::from(row.try_get::<Uuid, _>("id")?))
}

fn state(row: &PgRow, column: &str) -> Result<Option<JobState>> {
    Ok(row.try_get::<Option<&str>, _>(column)?.map(str::parse).transpose()?)
}
