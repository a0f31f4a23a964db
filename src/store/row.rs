//! Reading a job row.

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgRow, PgTypeInfo, PgValueRef};
use sqlx::types::Json;
use sqlx::{Decode, Postgres, Row, Type};
use time::{Duration, OffsetDateTime, macros::datetime};

use crate::error::Result;
use crate::ident::{JobId, Kind, QueueName};
use crate::job::{AttemptError, JobRow};
use crate::unique::StateSet;

/// Reads a row of the columns that every statement returns.
pub(crate) fn job_row(row: &PgRow) -> Result<JobRow> {
    Ok(JobRow {
        id: JobId::from(row.try_get::<uuid::Uuid, _>("id")?),
        kind: Kind::from_stored(row.try_get("kind")?),
        queue: QueueName::from_stored(row.try_get("queue")?),
        state: row.try_get::<&str, _>("state")?.parse()?,
        priority: row.try_get("priority")?,
        attempt: count(row.try_get("attempt")?),
        max_attempts: count(row.try_get("max_attempts")?),
        created_at: row.try_get::<Stored, _>("created_at")?.0,
        scheduled_at: row.try_get::<Stored, _>("scheduled_at")?.0,
        attempted_at: row.try_get::<Option<Stored>, _>("attempted_at")?.map(|at| at.0),
        finalized_at: row.try_get::<Option<Stored>, _>("finalized_at")?.map(|at| at.0),
        args: row.try_get::<Box<RawValue>, _>("args")?,
        meta: row.try_get::<Json<Map<String, Value>>, _>("meta")?.0,
        errors: row.try_get::<Json<Vec<AttemptError>>, _>("errors")?.0,
        output: row.try_get("output")?,
        progress: row.try_get("progress")?,
        unique_key: row.try_get("unique_key")?,
        unique_states: row.try_get::<Option<i16>, _>("unique_states")?.and_then(StateSet::from_bits),
        unique_until: row.try_get::<Option<Stored>, _>("unique_until")?.map(|at| at.0),
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

/// A timestamp as PostgreSQL stores it. `infinity`, and whatever RFC 3339 cannot write, is read as
/// the nearest time that it can: sqlx's own reading panics, and one row must not stop a runner.
pub(crate) struct Stored(pub(crate) OffsetDateTime);

impl Type<Postgres> for Stored {
    fn type_info() -> PgTypeInfo {
        <OffsetDateTime as Type<Postgres>>::type_info()
    }
}

impl<'r> Decode<'r, Postgres> for Stored {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        const EPOCH: OffsetDateTime = datetime!(2000-01-01 0:00 UTC);
        const FIRST: OffsetDateTime = datetime!(0000-01-01 0:00 UTC);
        const LAST: OffsetDateTime = datetime!(9999-12-31 23:59:59.999999 UTC);
        let microseconds = <i64 as Decode<Postgres>>::decode(value)?;
        let nearest = if microseconds < 0 { FIRST } else { LAST };
        let at = EPOCH.checked_add(Duration::microseconds(microseconds)).unwrap_or(nearest);
        Ok(Self(at.clamp(FIRST, LAST)))
    }
}
