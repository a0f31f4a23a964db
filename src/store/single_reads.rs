//! Single reads: a job by its id, the holder of a key, the database's time.

use sqlx::{PgConnection, Row};
use time::OffsetDateTime;

use super::row::job_row;
use super::{Statements, query};
use crate::error::Result;
use crate::words::ident::JobId;
use crate::words::job::JobRow;

/// One job, if it exists.
pub(crate) async fn job_by_id(
    connection: &mut PgConnection,
    statements: &Statements,
    id: JobId,
) -> Result<Option<JobRow>> {
    let row = query(&statements.job_by_id).bind(id.as_uuid()).fetch_optional(connection).await?;
    row.map(|row| job_row(&row)).transpose()
}

/// The job that claims a key now, if one does.
pub(crate) async fn holder(
    connection: &mut PgConnection,
    statements: &Statements,
    key: &str,
) -> Result<Option<JobRow>> {
    let row = query(&statements.holder).bind(key).fetch_optional(connection).await?;
    row.map(|row| job_row(&row)).transpose()
}

/// The database's time, as the `created_at` of a job inserted now would be.
pub(crate) async fn database_time(connection: &mut PgConnection, statements: &Statements) -> Result<OffsetDateTime> {
    let row = query(&statements.database_time).fetch_one(connection).await?;
    Ok(row.try_get(0)?)
}
