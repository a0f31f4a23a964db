//! Jobs whose rows the database cannot return.

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::fetch::{Slots, names_of, numbers_of};
use super::{Statements, query};
use crate::error::Result;

/// The ids of the jobs that a fetch from the heads of the queues would take now, except these.
pub(crate) async fn next_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    slots: &[Slots],
    kinds: &[String],
    except: &[Uuid],
) -> Result<Vec<Uuid>> {
    let asking = query(&statements.next_jobs).bind(names_of(slots)).bind(numbers_of(slots)).bind(kinds).bind(except);
    let rows = asking.fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// How many bytes the largest of these jobs has as text. An error where one of them cannot be read.
pub(crate) async fn bytes_of_jobs(connection: &mut PgConnection, statements: &Statements, ids: &[Uuid]) -> Result<u64> {
    let row = query(&statements.bytes_of_jobs).bind(ids).fetch_one(connection).await?;
    let bytes: Option<i64> = row.try_get("bytes")?;
    Ok(bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default())
}

/// Discards a job that is available, with the reason. `keep_errors`: adds the reason to the job's errors, which must be
/// read for that, and does not replace them.
pub(crate) async fn discard_unreadable(
    connection: &mut PgConnection,
    statements: &Statements,
    id: Uuid,
    reason: &str,
    keep_errors: bool,
) -> Result<()> {
    query(&statements.discard_unreadable).bind(id).bind(reason).bind(keep_errors).execute(connection).await?;
    Ok(())
}
