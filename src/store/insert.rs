//! Inserting: plain jobs by one statement, any mix with unique ones by `insert_jobs`.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sqlx::postgres::types::PgInterval;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::types::Json;
use sqlx::{PgConnection, Postgres, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::row::{Stored, job_row};
use super::{Statements, interval, query};
use crate::error::Result;
use crate::ident::{JobId, Kind, QueueName};
use crate::job::JobRow;
use crate::unique::{Claim, OnConflict};

/// A job as it goes to the database: checked, layered, its key made.
#[derive(Clone, Debug)]
pub(crate) struct NewRow {
    pub(crate) id: JobId,
    pub(crate) kind: Kind,
    pub(crate) queue: QueueName,
    pub(crate) args: Box<RawValue>,
    pub(crate) meta: Map<String, Value>,
    pub(crate) priority: i16,
    pub(crate) max_attempts: u16,
    pub(crate) scheduled_at: Option<OffsetDateTime>,
    pub(crate) delay: Option<Duration>,
    pub(crate) is_pending: bool,
    pub(crate) claim: Option<Claim>,
}

/// What became of one input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    Inserted,
    Duplicate,
    Rejected,
    Busy,
}

/// What became of one input, and the row that answers it: its own, or the holder's.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    pub(crate) replaced: Option<JobId>,
    /// Absent only when the outcome is `Busy`.
    pub(crate) job: Option<JobRow>,
    pub(crate) answered_at: OffsetDateTime,
}

/// The columns that every new row has, one array each.
#[derive(Default)]
struct Columns<'a> {
    ids: Vec<Uuid>,
    kinds: Vec<&'a str>,
    queues: Vec<&'a str>,
    args: Vec<Json<&'a RawValue>>,
    metas: Vec<Json<&'a Map<String, Value>>>,
    priorities: Vec<i16>,
    max_attempts: Vec<i16>,
    scheduled_ats: Vec<Option<OffsetDateTime>>,
    delays: Vec<Option<PgInterval>>,
    pendings: Vec<bool>,
}

impl<'a> Columns<'a> {
    fn of(rows: &'a [NewRow]) -> Self {
        let mut columns = Self::default();
        for row in rows {
            columns.ids.push(row.id.as_uuid());
            columns.kinds.push(row.kind.as_str());
            columns.queues.push(row.queue.as_str());
            columns.args.push(Json(&*row.args));
            columns.metas.push(Json(&row.meta));
            columns.priorities.push(row.priority);
            columns.max_attempts.push(stored_count(row.max_attempts));
            columns.scheduled_ats.push(row.scheduled_at);
            columns.delays.push(row.delay.map(interval));
            columns.pendings.push(row.is_pending);
        }
        columns
    }

    /// Binds the arrays, which come first in both statements.
    fn bind_to<'q>(&'q self, query: Query<'q, Postgres, PgArguments>) -> Query<'q, Postgres, PgArguments> {
        query
            .bind(&self.ids)
            .bind(&self.kinds)
            .bind(&self.queues)
            .bind(&self.args)
            .bind(&self.metas)
            .bind(&self.priorities)
            .bind(&self.max_attempts)
            .bind(&self.scheduled_ats)
            .bind(&self.delays)
            .bind(&self.pendings)
    }
}

/// Inserts rows of which none has a key and every id is new. Rows come back in input order.
pub(crate) async fn insert_plain(
    connection: &mut PgConnection,
    statements: &Statements,
    rows: Vec<NewRow>,
) -> Result<Vec<JobRow>> {
    let columns = Columns::of(&rows);
    let stored = columns.bind_to(query(&statements.insert_plain)).fetch_all(connection).await?;
    let mut by_id = HashMap::with_capacity(stored.len());
    for row in &stored {
        by_id.insert(row.try_get::<Uuid, _>("id")?, row);
    }
    rows.into_iter()
        .map(|row| {
            let stored = by_id.get(&row.id.as_uuid()).ok_or(sqlx::Error::RowNotFound)?;
            new_job(row, stored)
        })
        .collect()
}

/// Inserts any mix of rows, all or nothing. `in_order` takes key by key, which equal keys, ids that
/// may be there already and every `on_conflict` but `ignore` need. `folded` says how many more inputs
/// each row stands for, which the audit counts as its duplicates. Answers come back in input order;
/// under a refusal only the rejected inputs have one.
pub(crate) async fn insert_unique(
    connection: &mut PgConnection,
    statements: &Statements,
    rows: Vec<NewRow>,
    in_order: bool,
    max_wait: Option<Duration>,
    folded: Option<Vec<i32>>,
) -> Result<Vec<Option<Answer>>> {
    let columns = Columns::of(&rows);
    let claims: Vec<Option<&Claim>> = rows.iter().map(|row| row.claim.as_ref()).collect();
    let keys: Vec<_> = claims.iter().map(|c| c.map(|c| c.key.as_str())).collect();
    let states: Vec<_> = claims.iter().map(|c| c.map(|c| c.states.bits())).collect();
    let periods: Vec<_> = claims.iter().map(|c| c.and_then(|c| c.period).map(interval)).collect();
    let ttls: Vec<_> = claims.iter().map(|c| c.and_then(|c| c.ttl).map(interval)).collect();
    let until_starts: Vec<_> = claims.iter().map(|c| c.is_some_and(|c| c.until_start)).collect();
    let discards: Vec<_> = claims.iter().map(|c| c.is_some_and(|c| c.discard_on_reentry)).collect();
    let on_conflicts: Vec<_> =
        claims.iter().map(|c| c.map_or(OnConflict::Ignore, |c| c.on_conflict).as_str()).collect();
    let answered = columns
        .bind_to(query(&statements.insert_unique))
        .bind(&keys)
        .bind(&states)
        .bind(&periods)
        .bind(&ttls)
        .bind(&until_starts)
        .bind(&discards)
        .bind(&on_conflicts)
        .bind(in_order)
        .bind(max_wait.map(interval))
        .bind(folded)
        .fetch_all(connection)
        .await?;
    let mut answers = HashMap::with_capacity(answered.len());
    for row in &answered {
        answers.insert(row.try_get::<Uuid, _>("input_id")?, row);
    }
    rows.into_iter().map(|input| answers.get(&input.id.as_uuid()).map(|row| answer(row, input)).transpose()).collect()
}

fn answer(row: &PgRow, input: NewRow) -> Result<Answer> {
    let outcome = match row.try_get::<&str, _>("outcome")? {
        "inserted" => Outcome::Inserted,
        "duplicate" => Outcome::Duplicate,
        "rejected" => Outcome::Rejected,
        _ => Outcome::Busy,
    };
    let job = match outcome {
        Outcome::Busy => None,
        Outcome::Inserted | Outcome::Duplicate | Outcome::Rejected => {
            let is_sent_back = row.try_get::<Option<Uuid>, _>("id")?.is_some();
            Some(if is_sent_back { job_row(row)? } else { new_job(input, row)? })
        }
    };
    Ok(Answer {
        outcome,
        replaced: row.try_get::<Option<Uuid>, _>("replaced")?.map(JobId::from),
        job,
        answered_at: row.try_get("answered_at")?,
    })
}

/// A job that was not there before: the caller's row, and what the database decided.
fn new_job(row: NewRow, stored: &PgRow) -> Result<JobRow> {
    let (unique_until, claims) = match &row.claim {
        Some(_) => (stored.try_get::<Option<Stored>, _>("unique_until")?.map(|at| at.0), stored.try_get("claims")?),
        None => (None, false),
    };
    Ok(JobRow {
        id: row.id,
        kind: row.kind,
        queue: row.queue,
        state: stored.try_get::<&str, _>("state")?.parse()?,
        priority: row.priority,
        attempt: 0,
        max_attempts: row.max_attempts,
        created_at: stored.try_get::<Stored, _>("created_at")?.0,
        scheduled_at: stored.try_get::<Stored, _>("scheduled_at")?.0,
        attempted_at: None,
        finalized_at: None,
        args: row.args,
        meta: row.meta,
        errors: Vec::new(),
        output: None,
        progress: None,
        unique_states: row.claim.as_ref().map(|claim| claim.states),
        until_start: row.claim.as_ref().is_some_and(|claim| claim.until_start),
        unique_key: row.claim.map(|claim| claim.key),
        unique_until,
        claims,
        replaced_by: None,
        worker: None,
    })
}

/// A count as the table stores it; the options keep it in range.
fn stored_count(count: u16) -> i16 {
    i16::try_from(count).unwrap_or(i16::MAX)
}
