//! Jobs whose rows the database cannot return.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use sqlx::{Connection, PgConnection, Row};
use uuid::Uuid;

use super::fetch::{Slots, names_of, numbers_of};
use super::{Statements, query};
use crate::bisection::Bisection;
use crate::error::{Error, Result};

/// Whether a row may be the reason why a statement failed.
pub(crate) fn is_of_a_row(error: &Error) -> bool {
    // Data exceptions, limits, errors of reading a file, and internal errors, of which a damaged value is one. Not a server
    // that lacks memory.
    const CLASSES: [&str; 4] = ["22", "54", "58", "XX"];
    let Error::Database(sqlx::Error::Database(database)) = error else { return false };
    database.code().is_some_and(|code| CLASSES.iter().any(|class| code.starts_with(class)))
}

/// The ids of the jobs that a fetch from the heads of the queues would take now, except these. Locked ones are not among them.
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

/// The ids of the first jobs of the queues, except these: a suspect and another job of each, locked or not.
pub(crate) async fn first_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    slots: &[Slots],
    kinds: &[String],
    except: &[Uuid],
) -> Result<Vec<Uuid>> {
    let rows =
        query(&statements.first_jobs).bind(names_of(slots)).bind(kinds).bind(except).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// How many bytes the largest of these jobs has as text. An error where one of them cannot be read.
pub(crate) async fn bytes_of_jobs(connection: &mut PgConnection, statements: &Statements, ids: &[Uuid]) -> Result<u64> {
    bytes_as_text(connection, statements, ids, false).await
}

/// As [`bytes_of_jobs`]. `is_quick`: very large values are not made into text, and count with the most that it can have.
async fn bytes_as_text(
    connection: &mut PgConnection,
    statements: &Statements,
    ids: &[Uuid],
    is_quick: bool,
) -> Result<u64> {
    let row = query(&statements.bytes_of_jobs).bind(ids).bind(is_quick).fetch_one(connection).await?;
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

/// Jobs of a kind and a queue whose rows cannot be read.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct UnreadableJobs {
    pub(crate) kind: String,
    pub(crate) queue: String,
    /// Whether they were discarded for it. Otherwise they are available.
    pub(crate) is_discarded: bool,
    pub(crate) jobs: i64,
    /// One of them, and why it cannot be read.
    pub(crate) job: Uuid,
    pub(crate) problem: String,
}

/// The most bytes that PostgreSQL can make of a value, or of a message.
const MAX_BYTES: u64 = 0x3fff_ffff;

/// No further part is read after this time, so that the answer comes within the limit of a check.
const MAX_READ: Duration = Duration::from_secs(1);

/// Lists jobs that were discarded as unreadable, of the last `look_at` discarded ones, and unreadable jobs at the heads of
/// the queues. Needs a transaction, since it reads each part of these under a savepoint.
pub(crate) async fn unreadable_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    look_at: i64,
) -> Result<Vec<UnreadableJobs>> {
    let began = Instant::now();
    let asking = query(&statements.health_unreadable).bind(look_at).persistent(false);
    let rows = asking.fetch_all(&mut *connection).await?;
    let mut found =
        rows.iter().map(|row| Ok(row.try_get::<Json<UnreadableJobs>, _>(0)?.0)).collect::<Result<Vec<_>>>()?;
    let waiting = query(&statements.health_waiting).persistent(false).fetch_all(&mut *connection).await?;
    let mut bisection = Bisection::new(waiting);
    bisection.is_exhaustive = true;
    while let Some(part) = bisection.next_part() {
        let ids = part.iter().map(|row| row.try_get("id")).collect::<sqlx::Result<Vec<Uuid>>>()?;
        let mut savepoint = connection.begin().await?;
        let problem = match bytes_as_text(&mut savepoint, statements, &ids, true).await {
            Ok(bytes) if bytes > MAX_BYTES => {
                "the text of the job's values may exceed 1 GB, which no fetch returns".to_owned()
            }
            Ok(_) => {
                bisection.accepted();
                continue;
            }
            Err(error) if is_of_a_row(&error) => format!("the job's row cannot be read: {error}"),
            Err(error) => return Err(error),
        };
        savepoint.rollback().await?;
        if let Some(row) = bisection.refused(part) {
            let (kind, queue) = (row.try_get("kind")?, row.try_get("queue")?);
            found.push(UnreadableJobs { kind, queue, is_discarded: false, jobs: 1, job: row.try_get("id")?, problem });
        }
        if began.elapsed() > MAX_READ {
            break;
        }
    }
    Ok(found)
}
