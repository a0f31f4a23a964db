//! Reading a job row.

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;

use crate::error::Result;
use crate::ident::{JobId, Kind, QueueName};
use crate::job::{AttemptError, JobRow};
use crate::unique::StateSet;

/// Reads a row of the columns that every statement returns. `args` stands in where the statement
/// left them out because the caller has them.
pub(crate) fn job_row(row: &PgRow, args: Option<Box<RawValue>>) -> Result<JobRow> {
    let args = match args {
        Some(args) => args,
        None => row.try_get::<Box<RawValue>, _>("args")?,
    };
    Ok(JobRow {
        id: JobId::from(row.try_get::<uuid::Uuid, _>("id")?),
        kind: Kind::from_stored(row.try_get("kind")?),
        queue: QueueName::from_stored(row.try_get("queue")?),
        state: row.try_get::<&str, _>("state")?.parse()?,
        priority: row.try_get("priority")?,
        attempt: count(row.try_get("attempt")?),
        max_attempts: count(row.try_get("max_attempts")?),
        created_at: row.try_get("created_at")?,
        scheduled_at: row.try_get("scheduled_at")?,
        attempted_at: row.try_get("attempted_at")?,
        finalized_at: row.try_get("finalized_at")?,
        args,
        meta: row.try_get::<Json<Map<String, Value>>, _>("meta")?.0,
        errors: row.try_get::<Json<Vec<AttemptError>>, _>("errors")?.0,
        output: row.try_get("output")?,
        unique_key: row.try_get("unique_key")?,
        unique_states: row.try_get::<Option<i16>, _>("unique_states")?.and_then(StateSet::from_bits),
        unique_until: row.try_get("unique_until")?,
        claims: row.try_get("claims")?,
        until_start: row.try_get("until_start")?,
        replaced_by: row.try_get::<Option<uuid::Uuid>, _>("replaced_by")?.map(JobId::from),
        worker: row.try_get("worker")?,
    })
}

/// A count that a CHECK constraint keeps from being negative.
fn count(stored: i16) -> u16 {
    stored.max(0).unsigned_abs()
}
