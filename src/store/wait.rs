//! Waiting for jobs to become final.

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::row::job_row;
use super::{Statements, query};
use crate::error::Result;
use crate::words::ident::JobId;
use crate::words::job::JobRow;

/// Of these jobs, those that are final, and those that do not exist, which have no row.
pub(crate) async fn final_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    ids: &[Uuid],
) -> Result<Vec<(JobId, Option<JobRow>)>> {
    let rows = query(&statements.final_jobs).bind(ids).fetch_all(connection).await?;
    let read = |row| {
        let id = JobId::from(Row::try_get::<Uuid, _>(row, "waited_for")?);
        let exists = Row::try_get::<Option<Uuid>, _>(row, "id")?.is_some();
        Ok((id, exists.then(|| job_row(row)).transpose()?))
    };
    rows.iter().map(read).collect()
}

/// Whether jobs of the queue are deleted as they complete, so that their results cannot be read.
pub(crate) async fn deletes_completed(
    connection: &mut PgConnection,
    statements: &Statements,
    queue: &str,
) -> Result<bool> {
    let row = query(&statements.deletes_completed).bind(queue).fetch_one(connection).await?;
    Ok(row.try_get("deletes_completed")?)
}
