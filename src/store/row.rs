//! Reading a job row.

use std::ops::RangeInclusive;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgRow, PgTypeInfo, PgValueRef};
use sqlx::types::Json;
use sqlx::{Column, Decode, Postgres, Row, Type};
use time::{Duration, OffsetDateTime, macros::datetime};
use uuid::Uuid;

use crate::error::Result;
use crate::unique::StateSet;
use crate::words::attempt_error::AttemptError;
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::job::JobRow;
use crate::words::state::JobState;

/// Defines the columns of a job, in their order: the name of each, and how its value is read from its place.
macro_rules! job_columns {
    (|$row:ident, $at:ident, $started:ident| $($name:ident: $read:expr,)+) => {
        /// The columns of a job, in the order in which [`job_row`] reads them.
        const COLUMNS: [&str; [$(stringify!($name)),+].len()] = [$(stringify!($name)),+];

        /// Reads the columns from this place on. By place, since a look-up by name for each column is most of the work. Of a
        /// job that started, a column that has its default is null.
        fn read($row: &PgRow, first: usize, $started: Option<&Started>) -> Result<JobRow> {
            let mut places = first..;
            let mut $at = || places.next().unwrap_or_default();
            Ok(JobRow { $($name: $read,)+ })
        }
    };
}

/// The start of a job by a fetch, which the job's row need not tell.
pub(super) struct Started {
    pub(super) id: JobId,
    pub(super) worker: Uuid,
    pub(super) at: OffsetDateTime,
}

/// Reads the job of a row. Values that cannot be read, which only a change by hand leaves there, must not fail a page of other
/// jobs: meta is its text in a member `unreadable` then.
pub(crate) fn job_row(row: &PgRow) -> Result<JobRow> {
    read(row, row.try_column(COLUMNS[0])?.ordinal(), None)
}

/// Reads a job that started, whose row has the other columns from this place on. Meta that cannot be read is an error.
pub(super) fn started_row(row: &PgRow, first: usize, started: &Started) -> Result<JobRow> {
    read(row, first, Some(started))
}

job_columns! { |row, at, started|
    id: match started {
        Some(started) => started.id,
        None => JobId::from(row.try_get::<Uuid, _>(at())?),
    },
    kind: Kind::from_stored(row.try_get(at())?),
    queue: QueueName::from_stored(row.try_get(at())?),
    state: match started {
        Some(_) => JobState::Running,
        None => row.try_get::<&str, _>(at())?.parse()?,
    },
    priority: row.try_get(at())?,
    attempt: count(row.try_get(at())?),
    max_attempts: count(row.try_get(at())?),
    created_at: row.try_get::<Stored, _>(at())?.0,
    scheduled_at: row.try_get::<Stored, _>(at())?.0,
    attempted_at: match started {
        Some(started) => Some(started.at),
        None => row.try_get::<Option<Stored>, _>(at())?.map(|time| time.0),
    },
    finalized_at: match started {
        Some(_) => None,
        None => row.try_get::<Option<Stored>, _>(at())?.map(|time| time.0),
    },
    args: row.try_get::<Box<RawValue>, _>(at())?,
    meta: match started {
        Some(_) => row.try_get::<Option<Json<Map<String, Value>>>, _>(at())?.map_or_else(Map::new, |meta| meta.0),
        None => meta(row, at())?,
    },
    errors: errors(row, at())?,
    output: value(row, at())?,
    progress: value(row, at())?,
    unique_key: row.try_get(at())?,
    unique_states: row.try_get::<Option<i16>, _>(at())?.and_then(StateSet::from_bits),
    unique_until: row.try_get::<Option<Stored>, _>(at())?.map(|time| time.0),
    claims: row.try_get::<Option<bool>, _>(at())?.unwrap_or_default(),
    until_start: row.try_get::<Option<bool>, _>(at())?.unwrap_or_default(),
    replaced_by: row.try_get::<Option<Uuid>, _>(at())?.map(JobId::from),
    worker: match started {
        Some(started) => Some(started.worker),
        None => row.try_get(at())?,
    },
    run: run_number(row.try_get(at())?),
    crashes: row.try_get::<Option<i16>, _>(at())?.map_or(0, count),
    group_key: row.try_get(at())?,
    group_limit: row.try_get::<Option<i16>, _>(at())?.map(count),
    in_order: row.try_get::<Option<bool>, _>(at())?.unwrap_or_default(),
    updates: row.try_get::<Option<i32>, _>(at())?.map_or(0, |updates| updates.max(0).unsigned_abs()),
    updated_at: row.try_get::<Option<Stored>, _>(at())?.map(|time| time.0),
    updated_by: row.try_get::<Option<Uuid>, _>(at())?.map(JobId::from),
    discard_on_reentry: row.try_get::<Option<bool>, _>(at())?.unwrap_or_default(),
    expires_at: row.try_get::<Option<Stored>, _>(at())?.map(|time| time.0),
}

/// The marker in statements for the columns of the job `j`.
pub(super) fn columns_of_j() -> String {
    let column = |name: &str| match name {
        "state" => "j.state::text AS state".to_owned(),
        name => format!("j.{name}"),
    };
    COLUMNS.map(column).join(", ")
}

/// Reads the meta of a job. Meta that is no object, which only a change by hand leaves there, is in a member `unreadable`.
pub(super) fn meta(row: &PgRow, place: usize) -> Result<Map<String, Value>> {
    Ok(match value(row, place)? {
        Some(Value::Object(meta)) => meta,
        other => Map::from_iter([("unreadable".to_owned(), other.unwrap_or_default())]),
    })
}

/// The errors of a job. Anything but an array, which only a change by hand leaves there, is read as the text of one error:
/// it must not fail a page of other jobs, or a run.
pub(super) fn errors(row: &PgRow, place: usize) -> Result<Vec<AttemptError>> {
    if let Ok(errors) = row.try_get::<Option<Json<Vec<_>>>, _>(place) {
        return Ok(errors.map_or_else(Vec::new, |errors| errors.0));
    }
    let whole = value(row, place)?;
    Ok(whole.map(AttemptError::from).into_iter().collect())
}

/// A value that no key is made from. A number that `serde_json` cannot hold, such as 1e400, is read as its text.
pub(super) fn value(row: &PgRow, place: usize) -> Result<Option<Value>> {
    if let Ok(value) = row.try_get(place) {
        return Ok(value);
    }
    let text = row.try_get::<Option<Box<RawValue>>, _>(place)?;
    Ok(text.map(|text| Value::String(text.get().to_owned())))
}

/// How many bytes the values in these places have, as they came.
pub(super) fn bytes_at(row: &PgRow, places: RangeInclusive<usize>) -> usize {
    places.filter_map(|place| row.try_get_raw(place).ok()?.as_bytes().ok().map(<[u8]>::len)).sum()
}

/// A count that a CHECK constraint keeps from being negative.
pub(super) fn count(stored: i16) -> u16 {
    stored.max(0).unsigned_abs()
}

/// The number of a run. Fetches keep it from being negative.
pub(super) fn run_number(stored: i32) -> u32 {
    stored.max(0).unsigned_abs()
}

/// A timestamp as PostgreSQL stores it. `infinity`, and every time that RFC 3339 cannot write, is read as the nearest
/// time that it can. sqlx's own conversion panics on these, and one row must not stop a runner.
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
