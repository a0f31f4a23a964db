//! Jobs that the database cannot return or start: tried one by one, named, and discarded.

use std::time::Duration;

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::fetch::{QueueDemand, names_of, numbers_of};
use super::{Statements, begin_limited, query};
use crate::error::Result;
use crate::words::ident::QueueName;

/// The jobs that a fetch from the heads of the queues would take now, and the first ones that may be locked, except these.
/// Each comes with its queue.
pub(crate) async fn next_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    slots: &[QueueDemand],
    kinds: Option<&[String]>,
    except: &[Uuid],
) -> Result<Vec<(Uuid, QueueName)>> {
    let asking = query(&statements.next_jobs).bind(names_of(slots)).bind(numbers_of(slots)).bind(kinds).bind(except);
    let rows = asking.fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get("id")?, QueueName::from_stored(row.try_get("queue")?)))).collect()
}

/// The result of the trial of a job.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) id: Uuid,
    pub(crate) trial: Trial,
    pub(crate) took: Duration,
}

#[derive(Debug)]
pub(crate) enum Trial {
    /// It is no longer available.
    Gone,
    /// It can be read. Another transaction has it locked, so it was not started.
    Locked { bytes: u64 },
    /// It can be read, and started where that was asked for.
    Fine { bytes: u64 },
    /// The time of the statement was over while it was tried; `None`: while it was read.
    OutOfTime { bytes: Option<u64> },
    /// The database refuses; without `bytes`: to read it.
    Refused { code: String, problem: String, bytes: Option<u64> },
}

impl Tried {
    /// Whether a value of the row is the reason, or its size: the same row would be refused for ever. The error of a start
    /// may be one of the application's trigger, whatever its code.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(&self.trial, Trial::Refused { code, bytes: None, .. } if is_of_values(code))
    }
}

/// Whether an error of this code is due to the values that a statement read.
pub(crate) fn is_of_values(code: &str) -> bool {
    // Data exceptions, limits, errors of reading a file, and internal errors, of which a damaged value is one.
    ["22", "54", "58", "XX"].iter().any(|class| code.starts_with(class))
}

/// Tries one by one whether jobs can be read and started by this worker; `None`: whether they can be read. Nothing of it
/// stays. Ends after a job for which the time was over.
pub(crate) async fn try_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    worker: Option<Uuid>,
    ids: &[Uuid],
) -> Result<Vec<Tried>> {
    let rows = query(&statements.try_jobs).persistent(false).bind(ids).bind(worker).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            let bytes = row.try_get::<Option<i64>, _>("bytes")?.and_then(|bytes| u64::try_from(bytes).ok());
            let trial = match row.try_get::<Option<String>, _>("code")? {
                Some(code) if code == "57014" => Trial::OutOfTime { bytes },
                Some(code) => Trial::Refused { code, problem: row.try_get("problem")?, bytes },
                None if !row.try_get("is_there")? => Trial::Gone,
                None if row.try_get("is_locked")? => Trial::Locked { bytes: bytes.unwrap_or_default() },
                None => Trial::Fine { bytes: bytes.unwrap_or_default() },
            };
            let took = Duration::try_from_secs_f64(row.try_get("took")?).unwrap_or_default();
            Ok(Tried { id: row.try_get("id")?, trial, took })
        })
        .collect()
}

/// As [`try_jobs`], for so long at most.
pub(crate) async fn try_jobs_within(
    connection: &mut PgConnection,
    statements: &Statements,
    worker: Uuid,
    ids: &[Uuid],
    limit: Duration,
) -> Result<Vec<Tried>> {
    let mut transaction = begin_limited(connection, Some(limit)).await?;
    let tried = try_jobs(&mut transaction, statements, Some(worker), ids).await?;
    transaction.rollback().await?;
    Ok(tried)
}

/// Discards a job that is available, with the reason. `keep_errors`: adds the reason to the job's errors, which must be
/// read for that, and does not replace them. Answers whether the job is out of the way: `false` where it is locked.
pub(crate) async fn discard_unreadable(
    connection: &mut PgConnection,
    statements: &Statements,
    id: Uuid,
    reason: &str,
    keep_errors: bool,
) -> Result<bool> {
    let discarding = query(&statements.discard_unreadable).bind(id).bind(reason).bind(keep_errors);
    Ok(discarding.fetch_one(connection).await?.try_get("is_away")?)
}
