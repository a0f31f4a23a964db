//! Keys and groups for queued jobs: the reads and writes of a backfill. Rows go to the database and come from it as JSON.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{Connection, PgConnection, Postgres, Row, SqlStr, Transaction};
use time::OffsetDateTime;
use uuid::Uuid;

use super::Statements;
use super::query;
use super::select::state_names;
use crate::error::Result;
use crate::unique::StateSet;
use crate::words::group::Group;
use crate::words::ident::JobId;
use crate::words::state::JobState;
use crate::words::stored_time;

/// A job as a backfill sees it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SeenRow {
    pub(crate) id: JobId,
    pub(crate) queue: String,
    pub(crate) state: JobState,
    pub(crate) args: Box<RawValue>,
    pub(crate) meta: Map<String, Value>,
    pub(crate) attempt: i16,
    #[serde(deserialize_with = "stored_time::deserialize")]
    pub(crate) created_at: OffsetDateTime,
    #[serde(deserialize_with = "stored_time::deserialize")]
    pub(crate) scheduled_at: OffsetDateTime,
    /// The same as the database writes it, with its full range, including infinity.
    pub(crate) due: String,
    pub(crate) was_attempted: bool,
    pub(crate) unique_key: Option<String>,
    pub(crate) unique_states: Option<i16>,
    #[serde(deserialize_with = "stored_time::option::deserialize")]
    pub(crate) unique_until: Option<OffsetDateTime>,
    pub(crate) until_start: bool,
    pub(crate) discard_on_reentry: bool,
    pub(crate) unique_yielded: bool,
    pub(crate) group_key: Option<String>,
    group_limit: Option<i16>,
    in_order: Option<bool>,
    pub(crate) updates: Option<i32>,
}

impl SeenRow {
    /// The states in which it claims its key.
    pub(crate) fn states(&self) -> StateSet {
        self.unique_states.and_then(StateSet::from_bits).unwrap_or_default()
    }

    pub(crate) fn group(&self) -> Option<Group> {
        let (limit, in_order) = (self.group_limit.map(i16::unsigned_abs), self.in_order.unwrap_or_default());
        self.group_key.clone().map(|key| Group { key, limit, in_order })
    }
}

/// A page of jobs.
#[derive(Debug)]
pub(crate) struct BackfillPage {
    /// The number of its jobs, of all kinds.
    pub(crate) scanned: u64,
    /// The last of them. `None`: there were no more jobs.
    pub(crate) reached: Option<JobId>,
    /// Its jobs of the kind.
    pub(crate) jobs: Vec<SeenRow>,
}

/// Reads the next page: up to `limit` jobs after `after`, up to `last`. Of these the jobs of a kind that are not final, or are
/// in one of `final_states`. `ids`: only these.
#[expect(clippy::too_many_arguments, reason = "each is one parameter of the statement")]
pub(crate) async fn backfill_rows(
    connection: &mut PgConnection,
    statements: &Statements,
    kind: &str,
    final_states: StateSet,
    ids: Option<&[Uuid]>,
    after: JobId,
    last: JobId,
    limit: i64,
) -> Result<BackfillPage> {
    let query = query(&statements.backfill_rows).persistent(false).bind(after.as_uuid()).bind(last.as_uuid());
    let query = query.bind(limit).bind(kind).bind(state_names(final_states)).bind(ids);
    let rows = query.fetch_all(connection).await?;
    let first = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    Ok(BackfillPage {
        scanned: first.try_get::<i64, _>("scanned")?.unsigned_abs(),
        reached: first.try_get::<Option<Uuid>, _>("reached")?.map(JobId::from),
        jobs: rows.iter().filter_map(|row| of_json(row).transpose()).collect::<Result<_>>()?,
    })
}

/// The outcome of a job that was given its key.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Settled {
    pub(crate) id: JobId,
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) attempt: u16,
    pub(crate) state: JobState,
    pub(crate) unique_key: String,
    pub(crate) claims: bool,
    /// Whether the job lacks its claim only because another job has it.
    pub(crate) unique_yielded: bool,
    /// The job that claims the key instead. `None` for a job that yielded: a transaction that is still open has the
    /// key.
    pub(crate) holder: Option<JobId>,
}

/// Begins a transaction for a batch of a backfill. Each of its statements must see what rivals have committed.
pub(crate) async fn begin_batch(connection: &mut PgConnection) -> Result<Transaction<'_, Postgres>> {
    Ok(connection.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await?)
}

/// Gives jobs their keys, and their claims where the keys are free. Returns the outcomes. Jobs that changed meanwhile,
/// and jobs that another transaction has locked, are left out.
pub(crate) async fn backfill_keys(
    connection: &mut PgConnection,
    statements: &Statements,
    jobs: Vec<Value>,
) -> Result<Vec<Settled>> {
    let row = of_jobs(&statements.backfill_keys, jobs).fetch_one(&mut *connection).await?;
    let keyed: Vec<Uuid> = row.try_get("ids")?;
    let rows = query(&statements.backfill_outcomes).persistent(false).bind(keyed).fetch_all(connection).await?;
    rows.iter().filter_map(|row| of_json(row).transpose()).collect()
}

/// Ends a batch: sets which jobs are discarded at a re-entry that fails, and cancels the jobs with a holder, which lost
/// their key to it.
pub(crate) async fn backfill_settle(
    connection: &mut PgConnection,
    statements: &Statements,
    jobs: Vec<Value>,
) -> Result<()> {
    of_jobs(&statements.backfill_settle, jobs).execute(connection).await?;
    Ok(())
}

/// Puts waiting jobs in their groups. Returns those that are in them now. Jobs that changed meanwhile, and jobs that
/// another transaction has locked, are left out.
pub(crate) async fn backfill_groups(
    connection: &mut PgConnection,
    statements: &Statements,
    jobs: Vec<Value>,
) -> Result<HashSet<JobId>> {
    let rows = of_jobs(&statements.backfill_groups, jobs).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(JobId::from(row.try_get::<Uuid, _>("id")?))).collect()
}

/// A statement for jobs, which are an array of objects.
fn of_jobs(statement: &SqlStr, jobs: Vec<Value>) -> super::query::Query {
    query(statement).persistent(false).bind(Value::Array(jobs))
}

/// The job of a row. `None`: it has none.
fn of_json<T: DeserializeOwned + 'static>(row: &PgRow) -> Result<Option<T>> {
    Ok(row.try_get::<Option<Json<T>>, _>("job")?.map(|job| job.0))
}

/// The jobs that claim these keys now.
pub(crate) async fn holders(
    connection: &mut PgConnection,
    statements: &Statements,
    keys: &[&str],
) -> Result<HashMap<String, JobId>> {
    let rows = query(&statements.holders).persistent(false).bind(keys).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get("unique_key")?, JobId::from(row.try_get::<Uuid, _>("id")?)))).collect()
}
