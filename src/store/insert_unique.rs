//! Inserting jobs that may meet others: quickly where looking is enough, else by `insert_jobs`.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::columns::{Claims, Columns};
use super::insert::{Entered, NewRow};
use super::row::{Stored, job_row};
use super::{Statements, interval, query};
use crate::error::Result;
use crate::ident::JobId;
use crate::job::JobRow;
use crate::unique::OnConflict;

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

/// What the quick way comes to for one row.
#[derive(Debug)]
pub(crate) enum Quick {
    Entered(Entered),
    /// The job that claims its key, and when.
    Held(Box<JobRow>, OffsetDateTime),
    /// Nothing yet: its key takes [`insert_unique`].
    Open,
}

impl Answer {
    /// `None`: there is none yet.
    pub(crate) fn of(row: NewRow, quick: Quick) -> Option<Self> {
        let (outcome, job, answered_at) = match quick {
            Quick::Entered(entered) => (Outcome::Inserted, row.into_job(entered), entered.created_at),
            // It is there from an earlier try.
            Quick::Held(holder, at) if holder.id == row.id => (Outcome::Inserted, *holder, at),
            Quick::Held(holder, at) => (Outcome::Duplicate, *holder, at),
            Quick::Open => return None,
        };
        Some(Self { outcome, replaced: None, job: Some(job), answered_at })
    }

    /// That of all who come for the key that this job claims.
    pub(crate) const fn of_holder(holder: JobRow, answered_at: OffsetDateTime) -> Self {
        Self { outcome: Outcome::Duplicate, replaced: None, job: Some(holder), answered_at }
    }
}

/// Inserts rows with new ids and different keys that ignore duplicates, each for itself. With
/// patience on a connection without a transaction: how long each waits for an uncommitted rival. `folded`
/// is as for [`insert_unique`].
pub(crate) async fn insert_each(
    connection: &mut PgConnection,
    statements: &Statements,
    rows: &[NewRow],
    patience: Option<Duration>,
    folded: Option<&[i32]>,
) -> Result<Vec<Quick>> {
    let (columns, claims) = (Columns::folded(rows), Claims::folded(rows));
    let inserting = claims.bind_to(columns.bind_to(query(&statements.insert_each)));
    quick(rows, &inserting.bind(patience.map(interval)).bind(folded).fetch_all(connection).await?)
}

/// Inserts such rows all or nothing: `Open` is one with all the others.
pub(crate) async fn insert_all(
    connection: &mut PgConnection,
    statements: &Statements,
    rows: &[NewRow],
    folded: Option<&[i32]>,
) -> Result<Vec<Quick>> {
    let (columns, claims) = (Columns::folded(rows), Claims::folded(rows));
    let inserting = claims.bind_to(columns.bind_to(query(&statements.insert_all)));
    quick(rows, &inserting.bind(folded).fetch_all(connection).await?)
}

/// The jobs that claim these keys, as far as a look without any lock can tell, and when.
pub(crate) async fn held(
    connection: &mut PgConnection,
    statements: &Statements,
    keys: &[&str],
) -> Result<Vec<(JobRow, OffsetDateTime)>> {
    let holders = query(&statements.held_jobs).bind(keys).fetch_all(connection).await?;
    holders.iter().map(|holder| Ok((job_row(holder)?, holder.try_get("answered_at")?))).collect()
}

/// Finds each row's answer. The one that names no row is that of all whom no other names.
fn quick(rows: &[NewRow], answers: &[PgRow]) -> Result<Vec<Quick>> {
    let mut by_id = HashMap::with_capacity(answers.len());
    let mut others = None;
    for answer in answers {
        match answer.try_get::<Option<Uuid>, _>("input_id")? {
            Some(id) => drop(by_id.insert(id, answer)),
            None => others = Some(answer),
        }
    }
    rows.iter()
        .map(|row| {
            let answer = by_id.get(&row.id.as_uuid()).copied().or(others).ok_or(sqlx::Error::RowNotFound)?;
            Ok(match answer.try_get::<&str, _>("outcome")? {
                "inserted" => Quick::Entered(entered(answer)?),
                "duplicate" => Quick::Held(Box::new(job_row(answer)?), answer.try_get("answered_at")?),
                _ => Quick::Open,
            })
        })
        .collect()
}

/// What the database decided of a new job.
fn entered(row: &PgRow) -> Result<Entered> {
    Ok(Entered {
        state: row.try_get::<&str, _>("new_state")?.parse()?,
        created_at: row.try_get::<Stored, _>("new_created_at")?.0,
        scheduled_at: row.try_get::<Stored, _>("new_scheduled_at")?.0,
        unique_until: row.try_get::<Option<Stored>, _>("new_unique_until")?.map(|at| at.0),
    })
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
    let (columns, claims) = (Columns::of(&rows), Claims::of(&rows));
    let on_conflicts: Vec<_> = rows
        .iter()
        .map(|row| row.claim.as_ref().map_or(OnConflict::Ignore, |claim| claim.on_conflict).as_str())
        .collect();
    let answered = claims
        .bind_to(columns.bind_to(query(&statements.insert_unique)))
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
            Some(if is_sent_back { job_row(row)? } else { input.into_job(entered(row)?) })
        }
    };
    Ok(Answer {
        outcome,
        replaced: row.try_get::<Option<Uuid>, _>("replaced")?.map(JobId::from),
        job,
        answered_at: row.try_get("answered_at")?,
    })
}
