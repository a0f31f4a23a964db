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
struct Session {
    id: i32,
    /// Whether a pooler keeps prepared statements apart.
    keeps_apart: bool,
}

/// The session that the statement runs in.
async fn session(connection: &mut PgConnection, statements: &Statements) -> Result<Session> {
    let row = query(&statements.session).fetch_one(connection).await?;
    Ok(Session { id: row.try_get("id")?, keeps_apart: row.try_get("keeps_apart")? })
}

/// What stands between a client and the database.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pooling {
    /// Nothing that changes sessions.
    Direct,
    /// A pooler that gives each transaction another session, and keeps prepared statements apart.
    KeepsApart,
    /// A pooler that gives each transaction another session, and mixes prepared statements up.
    MixesUp,
}

/// Finds out what stands between, from two connections that are open at once. Without a pooler they are two sessions
/// for as long as they live; any other answer is a pooler's. A busy pooler could by chance answer as if it were none.
pub(crate) async fn pooling(
    one: &mut PgConnection,
    other: &mut PgConnection,
    statements: &Statements,
) -> Result<Pooling> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    // Twice on one before the other, or a pooler that hands out two sessions in turn would seem none.
    for _ in 0..3 {
        ones.push(session(one, statements).await?);
        ones.push(session(one, statements).await?);
        others.push(session(other, statements).await?);
    }
    let (own, others_own) = (ones[0].id, others[0].id);
    let are_apart = ones.iter().all(|look| look.id == own) && others.iter().all(|look| look.id == others_own);
    if are_apart && own != others_own {
        return Ok(Pooling::Direct);
    }
    let keeps_apart = ones.iter().chain(&others).all(|look| look.keeps_apart);
    Ok(if keeps_apart { Pooling::KeepsApart } else { Pooling::MixesUp })
}
