//! Ends runs, fenced by worker and run number.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::postgres::types::PgInterval;
use uuid::Uuid;

use crate::error::Result;
use crate::store::{Store, interval, lock_timeout, query};
use crate::words::ident::{JobId, QueueName};
use crate::words::job::JobRow;
use crate::words::job_error::ErrorDetails;
use crate::words::state::JobState;

/// How a run ended.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    Complete {
        output: Option<Value>,
    },
    Retry {
        delay: Duration,
        error: StoredError,
    },
    Snooze {
        delay: Duration,
        hold: Option<Hold>,
    },
    /// Back to its place in the queue, since the runner stops. The attempt does not count.
    GiveBack {
        /// Whether the worker had begun.
        has_started: bool,
    },
    Cancel {
        reason: String,
    },
    Discard {
        reason: StoredError,
    },
}

/// An error as the job keeps it.
#[derive(Clone, Debug)]
pub(crate) struct StoredError {
    pub(crate) text: String,
    pub(crate) details: ErrorDetails,
}

impl StoredError {
    /// An error of uniqueue's own.
    pub(crate) fn coded(code: &str, text: impl Into<String>) -> Self {
        Self { text: text.into(), details: ErrorDetails::coded(code) }
    }
}

impl From<String> for StoredError {
    fn from(text: String) -> Self {
        Self { text, details: ErrorDetails::default() }
    }
}

impl Verdict {
    /// The queue or the group that it holds back.
    pub(crate) const fn hold(&self) -> Option<&Hold> {
        match self {
            Self::Snooze { hold, .. } => hold.as_ref(),
            _ => None,
        }
    }
}

/// The queue that a snoozed job holds back for as long as the job waits, or a group of it. Holds are ordered as fetches lock:
/// by queue, and a queue before its groups.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Hold {
    pub(crate) queue: QueueName,
    /// None: the queue as a whole.
    pub(crate) group: Option<String>,
}

/// The end of one run.
#[derive(Clone, Debug)]
pub(crate) struct RunResult {
    pub(crate) id: JobId,
    pub(crate) attempt: u16,
    /// The number of the run. The result counts only while the job has it.
    pub(crate) run: u32,
    pub(crate) verdict: Verdict,
    /// The last progress of the run, if it is not stored yet.
    pub(crate) progress: Option<Value>,
    /// Whether the row goes if the run completed the job.
    pub(crate) is_deleted: bool,
}

impl RunResult {
    /// The end of a fetched job's run that has nothing to store but its verdict.
    pub(crate) fn of(row: &JobRow, verdict: Verdict) -> Self {
        let JobRow { id, attempt, run, .. } = *row;
        Self { id, attempt, run, verdict, progress: None, is_deleted: false }
    }

    /// The statement that ends it.
    pub(crate) const fn ending(&self) -> EndStatement {
        match self.verdict {
            Verdict::Complete { .. } if self.is_deleted => EndStatement::Delete,
            Verdict::Complete { output: None } if self.progress.is_none() => EndStatement::Complete,
            _ => EndStatement::Other,
        }
    }
}

/// The states that jobs are in since their results counted. A result that did not count has none.
pub(crate) type FinishedStates = HashMap<JobId, JobState>;

/// The statement that ends a run.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum EndStatement {
    /// The row is kept, and has nothing to store but that the job is completed.
    Complete,
    /// The row of the completed job goes at once.
    Delete,
    /// Anything else.
    Other,
}

impl Store<'_> {
    /// Ends runs, which must be sorted by id, each job once. Runs of one [`EndStatement`] take the least. In a mix a row that should
    /// go is kept, for the pruner to delete. `lock_wait` limits the wait for each row that is locked. Without it the
    /// connection's own `lock_timeout` does.
    pub(crate) async fn finish(
        self,
        worker: Uuid,
        results: &[&RunResult],
        lock_wait: Option<Duration>,
    ) -> Result<FinishedStates> {
        // In a transaction of its own, so that it holds up no row of a job. Where the results are not recorded, they are sent
        // again, and so is this.
        self.statements.over(self.connection).hold_back(results).await?;
        let are_all = |ending| results.iter().all(|result| result.ending() == ending);
        let (statement, outcomes) = if are_all(EndStatement::Complete) {
            (&self.statements.complete, None)
        } else if are_all(EndStatement::Delete) {
            (&self.statements.delete, None)
        } else {
            (&self.statements.finish, Some(Outcomes::of(results)))
        };
        let mut finishing = query(statement)
            .bind(worker)
            .bind(lock_wait.map(lock_timeout))
            .bind(results.iter().map(|result| result.id.as_uuid()).collect::<Vec<_>>())
            .bind(results.iter().map(|result| stored(result.run)).collect::<Vec<_>>());
        if let Some(Outcomes { names, delays, errors, outputs, progress, details }) = outcomes {
            finishing = finishing.bind(names).bind(delays).bind(errors).bind(outputs).bind(progress).bind(details);
        }
        let mut finished = FinishedStates::with_capacity(results.len());
        for row in finishing.fetch_all(self.connection).await? {
            let state: JobState = row.try_get::<&str, _>("state")?.parse()?;
            let ids = row.try_get::<Vec<Uuid>, _>("ids")?;
            let discarded = row.try_get::<Option<Vec<Uuid>>, _>("discarded")?.unwrap_or_default();
            let state_of = |id| if discarded.contains(&id) { JobState::Discarded } else { state };
            finished.extend(ids.into_iter().map(|id| (JobId::from(id), state_of(id))));
        }
        Ok(finished)
    }

    /// Holds the queues and groups of runs that say so, each for the longest time that one says.
    async fn hold_back(self, results: &[&RunResult]) -> Result<()> {
        let mut holds = BTreeMap::<&Hold, Duration>::new();
        for result in results {
            if let Verdict::Snooze { delay, hold: Some(hold) } = &result.verdict {
                let longest = holds.entry(hold).or_default();
                *longest = (*longest).max(*delay);
            }
        }
        if holds.is_empty() {
            return Ok(());
        }
        let (queues, groups): (Vec<_>, Vec<_>) =
            holds.keys().map(|hold| (hold.queue.as_str(), hold.group.as_deref())).unzip();
        let lengths: Vec<_> = holds.values().map(|length| interval(*length)).collect();
        query(&self.statements.hold_back).bind(queues).bind(groups).bind(lengths).execute(self.connection).await?;
        Ok(())
    }

    /// Which of these runs are still their worker's; `false`: it was taken away; not there: the job is gone. Sorted as for
    /// [`finish`].
    pub(crate) async fn still_held(self, worker: Uuid, runs: &[(JobId, u32)]) -> Result<HashMap<JobId, bool>> {
        let (ids, numbers): (Vec<_>, Vec<_>) = runs.iter().map(|(id, run)| (id.as_uuid(), stored(*run))).unzip();
        let rows =
            query(&self.statements.still_held).bind(worker).bind(ids).bind(numbers).fetch_all(self.connection).await?;
        rows.iter().map(|row| Ok((job_id(row)?, row.try_get("is_held")?))).collect()
    }

    /// Which of these jobs exist and are not completed.
    pub(crate) async fn not_completed(self, ids: &[Uuid]) -> Result<HashSet<JobId>> {
        let rows = query(&self.statements.not_completed).bind(ids).fetch_all(self.connection).await?;
        rows.iter().map(job_id).collect()
    }

    /// Which of these jobs another transaction has locked, even if only against deletion.
    pub(crate) async fn locked(self, ids: &[JobId]) -> Result<HashSet<JobId>> {
        let ids: Vec<_> = ids.iter().map(|id| id.as_uuid()).collect();
        let rows = query(&self.statements.locked_jobs).bind(ids).fetch_all(self.connection).await?;
        rows.iter().map(job_id).collect()
    }
}

/// The results of runs, as the statement takes them: an array for each column.
#[derive(Default)]
struct Outcomes<'a> {
    names: Vec<&'static str>,
    delays: Vec<Option<PgInterval>>,
    errors: Vec<Option<String>>,
    outputs: Vec<Option<&'a Value>>,
    progress: Vec<Option<&'a Value>>,
    details: Vec<Option<Value>>,
}

impl<'a> Outcomes<'a> {
    fn of(results: &[&'a RunResult]) -> Self {
        let mut outcomes = Self::default();
        for result in results {
            let (name, delay, error, output) = match &result.verdict {
                Verdict::Complete { output } => ("complete", None, None, output.as_ref()),
                Verdict::Retry { delay, error } => ("retry", Some(*delay), Some(&error.text), None),
                Verdict::Snooze { delay, .. } => ("snooze", Some(*delay), None, None),
                Verdict::GiveBack { has_started: false } => ("give_back", None, None, None),
                Verdict::GiveBack { has_started: true } => ("interrupt", None, None, None),
                Verdict::Cancel { reason } => ("cancel", None, Some(reason), None),
                Verdict::Discard { reason } => ("discard", None, Some(&reason.text), None),
            };
            let details = match &result.verdict {
                Verdict::Retry { error, .. } | Verdict::Discard { reason: error } => error.details.members(),
                _ => None,
            };
            outcomes.details.push(details);
            outcomes.names.push(name);
            outcomes.delays.push(delay.map(interval));
            outcomes.errors.push(error.map(|text| storable(text)));
            outcomes.outputs.push(output);
            outcomes.progress.push(result.progress.as_ref());
        }
        outcomes
    }
}

fn job_id(row: &PgRow) -> Result<JobId> {
    Ok(JobId::from(row.try_get::<Uuid, _>("id")?))
}

/// An error text without the one character that PostgreSQL cannot store: a worker's error must never keep its job from
/// being finished.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A run number as the column has it.
pub(in crate::store) fn stored(run: u32) -> i32 {
    i32::try_from(run).unwrap_or(i32::MAX)
}
