//! Inserting jobs that have no key, and what all inserts have in common.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::types::Json;
use sqlx::{PgConnection, Postgres, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::columns::{Columns, stored_count};
use super::row::Stored;
use super::{Statements, query};
use crate::error::Result;
use crate::ident::{JobId, Kind, QueueName};
use crate::job::JobRow;
use crate::state::JobState;
use crate::unique::Claim;

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

impl NewRow {
    /// Whether it may run as soon as it is there.
    pub(super) fn is_now(&self) -> bool {
        self.scheduled_at.is_none() && self.delay.is_none() && !self.is_pending
    }

    /// Binds what jobs often have in common.
    pub(super) fn bind_common_to<'q>(
        &'q self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Query<'q, Postgres, PgArguments> {
        query
            .bind(self.kind.as_str())
            .bind(self.queue.as_str())
            .bind(Json(&self.meta))
            .bind(self.priority)
            .bind(stored_count(self.max_attempts))
    }

    /// Binds its claim.
    pub(super) fn bind_claim_to<'q>(
        &'q self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Query<'q, Postgres, PgArguments> {
        let claim = self.claim.as_ref();
        query
            .bind(claim.map(|claim| claim.key.as_str()))
            .bind(claim.map(|claim| claim.states.bits()))
            .bind(claim.is_some_and(|claim| claim.until_start))
            .bind(claim.is_some_and(|claim| claim.discard_on_reentry))
    }

    /// The job that it is now, given what the database decided.
    pub(crate) fn into_job(self, entered: Entered) -> JobRow {
        let states = self.claim.as_ref().map(|claim| claim.states);
        JobRow {
            id: self.id,
            kind: self.kind,
            queue: self.queue,
            state: entered.state,
            priority: self.priority,
            attempt: 0,
            max_attempts: self.max_attempts,
            created_at: entered.created_at,
            scheduled_at: entered.scheduled_at,
            attempted_at: None,
            finalized_at: None,
            args: self.args,
            meta: self.meta,
            errors: Vec::new(),
            output: None,
            progress: None,
            unique_states: states,
            until_start: self.claim.as_ref().is_some_and(|claim| claim.until_start),
            unique_key: self.claim.map(|claim| claim.key),
            unique_until: entered.unique_until,
            claims: states.is_some_and(|states| states.contains(entered.state)),
            replaced_by: None,
            worker: None,
            run: 0,
        }
    }
}

/// What the database decided of a new job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    pub(super) state: JobState,
    pub(super) created_at: OffsetDateTime,
    pub(super) scheduled_at: OffsetDateTime,
    pub(super) unique_until: Option<OffsetDateTime>,
}

impl Entered {
    /// A job that may run since it is there.
    pub(super) const fn now(created_at: OffsetDateTime) -> Self {
        Self { state: JobState::Available, created_at, scheduled_at: created_at, unique_until: None }
    }
}

/// Inserts rows of which none has a key and every id is new. Answers come in input order.
pub(crate) async fn insert_plain<R: Borrow<NewRow>>(
    connection: &mut PgConnection,
    statements: &Statements,
    rows: &[R],
) -> Result<Vec<Entered>> {
    if rows.iter().all(|row| row.borrow().is_now()) {
        let created_at = insert_now(connection, statements, rows).await?;
        return Ok(vec![Entered::now(created_at); rows.len()]);
    }
    let columns = Columns::of(rows);
    let stored = columns.bind_to(query(&statements.insert_plain)).fetch_all(connection).await?;
    let mut by_id = HashMap::with_capacity(stored.len());
    for row in &stored {
        let entered = Entered {
            state: row.try_get::<&str, _>("state")?.parse()?,
            created_at: row.try_get::<Stored, _>("created_at")?.0,
            scheduled_at: row.try_get::<Stored, _>("scheduled_at")?.0,
            unique_until: None,
        };
        by_id.insert(row.try_get::<Uuid, _>("id")?, entered);
    }
    rows.iter().map(|row| Ok(*by_id.get(&row.borrow().id.as_uuid()).ok_or(sqlx::Error::RowNotFound)?)).collect()
}

/// Inserts rows that may run now. Answers with the time that is theirs.
async fn insert_now<R: Borrow<NewRow>>(
    connection: &mut PgConnection,
    statements: &Statements,
    rows: &[R],
) -> Result<OffsetDateTime> {
    let columns = Columns::folded(rows);
    let inserting = match rows {
        [row] => {
            let row = row.borrow();
            row.bind_common_to(query(&statements.insert_one).bind(row.id.as_uuid()).bind(Json(&*row.args)))
        }
        [row, ..] if columns.are_alike() => {
            row.borrow().bind_common_to(query(&statements.insert_alike).bind(&columns.ids).bind(&columns.args))
        }
        _ => columns.bind_timeless_to(query(&statements.insert_now)),
    };
    Ok(inserting.fetch_one(connection).await?.try_get::<Stored, _>("created_at")?.0)
}
