//! Parents of jobs.

use std::collections::HashMap;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{Statements, query};
use crate::error::Result;
use crate::words::after::JobParent;
use crate::words::ident::{JobId, Kind};
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

fn job_id(row: &PgRow) -> Result<JobId> {
    Ok(JobId::from(row.try_get::<Uuid, _>("id")?))
}

fn state(row: &PgRow, column: &str) -> Result<Option<JobState>> {
    Ok(row.try_get::<Option<&str>, _>(column)?.map(str::parse).transpose()?)
}
