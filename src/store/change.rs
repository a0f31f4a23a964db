//! Changing jobs by hand.

use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Statements, query};
use crate::error::Result;
use crate::ident::JobId;

/// What an operator can do to jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    Cancel,
    Delete,
    Release,
    Reschedule(OffsetDateTime),
    Retry,
}

/// Changes those of the jobs that are in a state for it, and answers with their ids.
pub(crate) async fn change(
    connection: &mut PgConnection,
    statements: &Statements,
    verb: Verb,
    ids: &[JobId],
) -> Result<Vec<JobId>> {
    let statement = match verb {
        Verb::Cancel => &statements.cancel_jobs,
        Verb::Delete => &statements.delete_jobs,
        Verb::Release => &statements.release_jobs,
        Verb::Reschedule(_) => &statements.reschedule_jobs,
        Verb::Retry => &statements.retry_jobs,
    };
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let mut query = query(statement).bind(ids);
    if let Verb::Reschedule(at) = verb {
        query = query.bind(at);
    }
    let rows = query.fetch_all(connection).await?;
    rows.iter().map(|row| Ok(JobId::from(row.try_get::<Uuid, _>("id")?))).collect()
}

/// Makes the holder of a key give up its claim for good.
pub(crate) async fn release_claim(
    connection: &mut PgConnection,
    statements: &Statements,
    key: &str,
) -> Result<Option<JobId>> {
    let row = query(&statements.release_claim).bind(key).fetch_one(connection).await?;
    Ok(row.try_get::<Option<Uuid>, _>("id")?.map(JobId::from))
}
