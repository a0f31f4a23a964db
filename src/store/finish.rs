//! Ending runs, fenced by worker and run number.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::Value;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row, SqlStr};
use uuid::Uuid;

use super::{Statements, interval, lock_timeout, query};
use crate::error::Result as UniqueueResult;
use crate::ident::JobId;
use crate::job::JobRow;
use crate::state::JobState;

/// So many jobs are deleted by the statement that does so for all or none.
const MANY: usize = 50;

/// How an attempt ended.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    Complete {
        output: Option<Value>,
    },
    Retry {
        delay: Duration,
        error: String,
    },
    Snooze {
        delay: Duration,
    },
    /// Back to where it was before it was fetched: the attempt does not count.
    GiveBack,
    Cancel {
        reason: String,
    },
    Discard {
        reason: String,
    },
}

/// The end of one attempt.
#[derive(Clone, Debug)]
pub(crate) struct Result {
    pub(crate) id: JobId,
    pub(crate) attempt: u16,
    /// The number of the run that made it, without which it does not count.
    pub(crate) run: u32,
    pub(crate) verdict: Verdict,
    /// What the attempt reported last, where that is not stored yet.
    pub(crate) progress: Option<Value>,
}

impl Result {
    /// The end of a fetched job's attempt, which left nothing to store but its verdict.
    pub(crate) fn of(row: &JobRow, verdict: Verdict) -> Self {
        Self { id: row.id, attempt: row.attempt, run: row.run, verdict, progress: None }
    }
}

/// The states that jobs are in since their results counted. A result that did not has none.
#[derive(Debug)]
pub(crate) enum Counted {
    AllCompleted,
    These(HashMap<JobId, JobState>),
}

impl Counted {
    /// The job's state since then.
    pub(crate) fn state(&self, id: JobId) -> Option<JobState> {
        match self {
            Self::AllCompleted => Some(JobState::Completed),
            Self::These(states) => states.get(&id).copied(),
        }
    }
}

/// Completes attempts without output. The attempts must be sorted
/// by id, each job once. `patience` limits the wait for each row that somebody has locked; without
/// it the connection's own `lock_timeout` does.
pub(crate) async fn complete(
    connection: &mut PgConnection,
    statements: &Statements,
    worker: Uuid,
    runs: &[(JobId, u32)],
    patience: Option<Duration>,
) -> UniqueueResult<Counted> {
    let numbers = Numbers::of(runs);
    let answer = numbers.bind(&statements.complete, worker, patience).fetch_one(connection).await?;
    counted_plainly(&answer)
}

/// Completes attempts of jobs whose rows go with that, as [`complete`] does.
pub(crate) async fn complete_and_delete(
    connection: &mut PgConnection,
    statements: &Statements,
    worker: Uuid,
    runs: &[(JobId, u32)],
    patience: Option<Duration>,
) -> UniqueueResult<Counted> {
    let numbers = Numbers::of(runs);
    if runs.len() >= MANY {
        // Rarely is one of them stale.
        let deleting = numbers.bind(&statements.delete_completed, worker, patience);
        if deleting.fetch_one(&mut *connection).await?.try_get("are_gone")? {
            return Ok(Counted::AllCompleted);
        }
    }
    let answer = numbers.bind(&statements.complete_and_delete, worker, patience).fetch_one(connection).await?;
    counted_plainly(&answer)
}

/// Runs as the statements of their common ends take them.
struct Numbers {
    ids: Vec<Uuid>,
    /// The number of all. Most are the first run, and need not be looked up job by job.
    same: Option<i32>,
    /// Those of each, where they differ.
    each: Vec<i32>,
}

impl Numbers {
    fn of(runs: &[(JobId, u32)]) -> Self {
        let (ids, mut each) = arrays(runs);
        let same = each.first().copied().filter(|first| each.iter().all(|number| number == first));
        if same.is_some() {
            each.clear();
        }
        Self { ids, same, each }
    }

    fn bind<'q>(
        &'q self,
        statement: &'q SqlStr,
        worker: Uuid,
        patience: Option<Duration>,
    ) -> Query<'q, Postgres, PgArguments> {
        query(statement).bind(worker).bind(&self.ids).bind(self.same).bind(&self.each).bind(patience.map(lock_timeout))
    }
}

fn counted_plainly(answer: &PgRow) -> UniqueueResult<Counted> {
    Ok(match answer.try_get::<Option<Vec<Uuid>>, _>("counted")? {
        None => Counted::AllCompleted,
        Some(ids) => Counted::These(ids.into_iter().map(|id| (JobId::from(id), JobState::Completed)).collect()),
    })
}

/// Ends attempts in any way, as [`complete`] does.
pub(crate) async fn finish(
    connection: &mut PgConnection,
    statements: &Statements,
    worker: Uuid,
    results: &[Result],
    patience: Option<Duration>,
) -> UniqueueResult<Counted> {
    let mut ids = Vec::with_capacity(results.len());
    let mut runs = Vec::with_capacity(results.len());
    let mut outcomes = Vec::with_capacity(results.len());
    let mut delays = Vec::with_capacity(results.len());
    let mut errors = Vec::with_capacity(results.len());
    let mut outputs = Vec::with_capacity(results.len());
    let mut progress = Vec::with_capacity(results.len());
    for result in results {
        ids.push(result.id.as_uuid());
        runs.push(stored(result.run));
        let (outcome, delay, error, output) = match &result.verdict {
            Verdict::Complete { output } => ("complete", None, None, output.as_ref()),
            Verdict::Retry { delay, error } => ("retry", Some(*delay), Some(error), None),
            Verdict::Snooze { delay } => ("snooze", Some(*delay), None, None),
            Verdict::GiveBack => ("give_back", None, None, None),
            Verdict::Cancel { reason } => ("cancel", None, Some(reason), None),
            Verdict::Discard { reason } => ("discard", None, Some(reason), None),
        };
        outcomes.push(outcome);
        delays.push(delay.map(interval));
        errors.push(error.map(|text| storable(text)));
        outputs.push(output);
        progress.push(result.progress.as_ref());
    }
    let rows = query(&statements.finish)
        .bind(worker)
        .bind(&ids)
        .bind(&runs)
        .bind(&outcomes)
        .bind(&delays)
        .bind(&errors)
        .bind(&outputs)
        .bind(patience.map(lock_timeout))
        .bind(&progress)
        .fetch_all(connection)
        .await?;
    let states = rows.iter().map(|row| Ok((counted(row)?, row.try_get::<&str, _>("state")?.parse()?)));
    Ok(Counted::These(states.collect::<UniqueueResult<_>>()?))
}

fn arrays(runs: &[(JobId, u32)]) -> (Vec<Uuid>, Vec<i32>) {
    runs.iter().map(|(id, number)| (id.as_uuid(), stored(*number))).unzip()
}

fn counted(row: &PgRow) -> UniqueueResult<JobId> {
    Ok(JobId::from(row.try_get::<Uuid, _>("id")?))
}

/// Which of these runs nobody took from their worker: `false`: somebody did; not there: the job
/// is not. Sorted as for [`complete`].
pub(crate) async fn still_held(
    connection: &mut PgConnection,
    statements: &Statements,
    worker: Uuid,
    runs: &[(JobId, u32)],
) -> UniqueueResult<HashMap<JobId, bool>> {
    let (ids, numbers) = arrays(runs);
    let rows = query(&statements.still_held).bind(worker).bind(&ids).bind(&numbers).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((counted(row)?, row.try_get("is_held")?))).collect()
}

/// Which of these jobs are there and not completed.
pub(crate) async fn not_completed(
    connection: &mut PgConnection,
    statements: &Statements,
    ids: &[Uuid],
) -> UniqueueResult<Vec<JobId>> {
    let rows = query(&statements.not_completed).bind(ids).fetch_all(connection).await?;
    rows.iter().map(counted).collect()
}

/// Which of these jobs somebody else has locked, be it only against their deletion.
pub(crate) async fn locked(
    connection: &mut PgConnection,
    statements: &Statements,
    ids: &[JobId],
) -> UniqueueResult<HashSet<JobId>> {
    let ids: Vec<_> = ids.iter().map(|id| id.as_uuid()).collect();
    let rows = query(&statements.locked_jobs).bind(ids).fetch_all(connection).await?;
    rows.iter().map(counted).collect()
}

/// An error text without the one character that PostgreSQL cannot store: a worker's error must
/// never keep its job from being finished.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A run number as the column has it.
pub(super) fn stored(run: u32) -> i32 {
    i32::try_from(run).unwrap_or(i32::MAX)
}
