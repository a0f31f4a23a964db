//! The database's answers to rows that were sent.

use std::collections::HashMap;

use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use uuid::Uuid;

use super::row::NewRow;
use crate::error::Result;
use crate::store::row::{Stored, job_row};
use crate::unique::InsertOutcome;
use crate::words::ident::JobId;
use crate::words::job::JobRow;

/// The outcome of one row, and the job that answers it: its own, or the holder.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) outcome: InsertOutcome,
    /// Whether the job is new. Not where a job with the given id was there before, which is also `Inserted`.
    pub(crate) is_new: bool,
    pub(crate) replaced: Option<JobId>,
    /// Of a rejected row, the place of the row of the batch that it met, counted from 0. That one was not inserted, either.
    pub(crate) earlier: Option<usize>,
    /// Absent until it has been [shared](share_jobs).
    pub(crate) job: Option<JobRow>,
    pub(crate) answered_at: OffsetDateTime,
}

impl Answer {
    /// The answer of a row that is a duplicate of this one's row.
    pub(super) fn for_duplicate(&self) -> Self {
        Self { outcome: InsertOutcome::Duplicate, is_new: false, replaced: None, ..self.clone() }
    }

    /// Reads the answer of a row that has no key.
    pub(super) fn of_plain(row: NewRow, answer: &PgRow) -> Result<Self> {
        let job = new_job(row, answer, None)?;
        let answered_at = job.created_at;
        Ok(Self {
            outcome: InsertOutcome::Inserted,
            is_new: true,
            replaced: None,
            earlier: None,
            answered_at,
            job: Some(job),
        })
    }

    /// Reads the answer of a row of the other ways, which may come with a job that was there before.
    pub(super) fn of_unique(row: NewRow, answer: &PgRow) -> Result<Self> {
        let outcome = outcome(answer)?.parse()?;
        let job = match outcome {
            _ if answer.try_get::<Option<Uuid>, _>("id")?.is_some() => Some(job_row(answer)?),
            InsertOutcome::Inserted if answer.try_get::<Option<Stored>, _>("new_scheduled_at")?.is_some() => {
                let unique_until = answer.try_get::<Option<Stored>, _>("new_unique_until")?;
                Some(new_job(row, answer, unique_until)?)
            }
            _ => None,
        };
        let is_new =
            outcome == InsertOutcome::Inserted && answer.try_get::<Option<Stored>, _>("new_created_at")?.is_some();
        let replaced = answer.try_get::<Option<Uuid>, _>("replaced")?.map(JobId::from);
        let earlier = answer.try_get::<Option<i32>, _>("earlier")?.map(index);
        Ok(Self { outcome, is_new, replaced, earlier, job, answered_at: answer.try_get("answered_at")? })
    }
}

/// The outcome of an answer of the unique way, or of one by one: that of the row, `contested`, or `busy`.
pub(super) fn outcome(answer: &PgRow) -> Result<&str> {
    Ok(answer.try_get("outcome")?)
}

/// Gives each answer its job, where the database sent the job with the first answer that names it.
pub(super) fn share_jobs(answers: &mut [Option<Answer>], answered: &[PgRow]) -> Result<()> {
    let mut named = Vec::with_capacity(answered.len());
    for answer in answered {
        if let (Some(place), Some(id)) =
            (answer.try_get::<Option<i32>, _>("place")?, answer.try_get::<Option<Uuid>, _>("job_id")?)
        {
            named.push((index(place), JobId::from(id)));
        }
    }
    let is_sent = |place: usize| answers[place].as_ref().is_some_and(|answer| answer.job.is_some());
    let (sent, unsent): (Vec<_>, Vec<_>) = named.into_iter().partition(|(place, _)| is_sent(*place));
    let first: HashMap<JobId, usize> = sent.into_iter().map(|(place, id)| (id, place)).collect();
    for (place, id) in unsent {
        let job = first.get(&id).and_then(|first| answers[*first].as_ref()?.job.clone());
        if let Some(answer) = &mut answers[place] {
            answer.job = job;
        }
    }
    Ok(())
}

/// The index of a place. Places count from 1, as in every array of PostgreSQL.
pub(super) fn index(place: i32) -> usize {
    usize::try_from(place - 1).unwrap_or_default()
}

/// The place of an index.
pub(super) fn place(index: usize) -> i32 {
    i32::try_from(index + 1).unwrap_or(i32::MAX)
}

/// A new job, with the values that the database chose.
fn new_job(row: NewRow, answer: &PgRow, unique_until: Option<Stored>) -> Result<JobRow> {
    let state = answer.try_get::<&str, _>("new_state")?.parse()?;
    let time = |column| answer.try_get::<Stored, _>(column).map(|at| at.0);
    Ok(row.into_job(state, time("new_created_at")?, time("new_scheduled_at")?, unique_until.map(|at| at.0)))
}
