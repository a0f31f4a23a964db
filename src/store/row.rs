//! Reading a job row.

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgRow, PgTypeInfo, PgValueRef};
use sqlx::types::Json;
use sqlx::{Column, Decode, Postgres, Row, Type};
use time::{Duration, OffsetDateTime, macros::datetime};
use uuid::Uuid;

use crate::error::Result;
use crate::ident::{JobId, Kind, QueueName};
use crate::job::{AttemptError, JobRow};
use crate::unique::StateSet;

/// The attempt, `attempted_at`, `finalized_at`, worker.
type Runs = (i16, Option<Stored>, Option<Stored>, Option<Uuid>);

/// Priority, `max_attempts`, `claims`, `until_start`, `unique_until`, `replaced_by`.
type Particulars = (i16, i16, bool, bool, Option<Stored>, Option<Uuid>);

/// Meta, errors, output, progress.
type Papers = (Json<Map<String, Value>>, Json<Vec<AttemptError>>, Option<Value>, Option<Value>);

/// Reads the job that `job.sql` sends. By place, since a look-up by name for each column is most of the work.
pub(crate) fn job_row(row: &PgRow) -> Result<JobRow> {
    let first = row.try_column("id")?.ordinal();
    let at = |place: usize| first + place;
    let state = row.try_get::<&str, _>(at(3))?.parse()?;
    let unique_states = row.try_get::<Option<i16>, _>(at(8))?.and_then(StateSet::from_bits);
    let mut job = JobRow {
        id: JobId::from(row.try_get::<Uuid, _>(first)?),
        kind: Kind::from_stored(row.try_get(at(1))?),
        queue: QueueName::from_stored(row.try_get(at(2))?),
        state,
        priority: 0,
        attempt: 0,
        max_attempts: 25,
        created_at: row.try_get::<Stored, _>(at(4))?.0,
        scheduled_at: row.try_get::<Stored, _>(at(5))?.0,
        attempted_at: None,
        finalized_at: None,
        args: row.try_get::<Box<RawValue>, _>(at(6))?,
        meta: Map::new(),
        errors: Vec::new(),
        output: None,
        progress: None,
        unique_key: row.try_get(at(7))?,
        unique_states,
        unique_until: None,
        claims: unique_states.is_some_and(|states| states.contains(state)),
        until_start: false,
        replaced_by: None,
        worker: None,
    };
    if let Some((attempt, attempted_at, finalized_at, worker)) = row.try_get::<Option<Runs>, _>(at(9))? {
        job.attempt = count(attempt);
        job.attempted_at = attempted_at.map(|at| at.0);
        job.finalized_at = finalized_at.map(|at| at.0);
        job.worker = worker;
    }
    if let Some(sent) = row.try_get::<Option<Particulars>, _>(at(10))? {
        let (priority, max_attempts, claims, until_start, unique_until, replaced_by) = sent;
        job.priority = priority;
        job.max_attempts = count(max_attempts);
        job.claims = claims;
        job.until_start = until_start;
        job.unique_until = unique_until.map(|at| at.0);
        job.replaced_by = replaced_by.map(JobId::from);
    }
    read_papers(&mut job, row, at(11))?;
    Ok(job)
}

/// Reads the papers that `papers.sql` sends.
pub(super) fn read_papers(job: &mut JobRow, row: &PgRow, place: usize) -> Result<()> {
    if let Some((meta, errors, output, progress)) = row.try_get::<Option<Papers>, _>(place)? {
        job.meta = meta.0;
        job.errors = errors.0;
        job.output = output;
        job.progress = progress;
    }
    Ok(())
}

/// A count that a CHECK constraint keeps from being negative.
pub(super) fn count(stored: i16) -> u16 {
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
