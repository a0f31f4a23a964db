//! Looking at jobs without changing them.

use sqlx::{PgConnection, Row};
use time::OffsetDateTime;

use super::row::job_row;
use super::{Statements, query};
use crate::error::Result;
use crate::ident::JobId;
use crate::job::JobRow;

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

/// A session of the server, as a statement meets it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    pub(crate) id: i32,
    /// Whether a pooler keeps prepared statements apart.
    pub(crate) keeps_apart: bool,
}

/// The session that the statement runs in.
pub(crate) async fn session(connection: &mut PgConnection, statements: &Statements) -> Result<Session> {
    let row = query(&statements.session).fetch_one(connection).await?;
    Ok(Session { id: row.try_get("id")?, keeps_apart: row.try_get("keeps_apart")? })
}
