//! Changing jobs by hand, and the log of changes.

use std::time::Duration;

use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use uuid::Uuid;

use super::select::state_names;
use super::{Store, lock_timeout, query};
use crate::error::{AnswerFuture, Result};
use crate::unique::{RefusedRetry, StateSet};
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::state::JobState;

/// An operator's change of jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    Cancel,
    Delete,
    Discard,
    Release,
    Reschedule(OffsetDateTime),
    Retry {
        /// With attempt 0.
        afresh: bool,
    },
    RetryGraph,
    SetPriority(i16),
}

impl Verb {
    /// The verb in the log of changes.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Delete => "delete",
            Self::Discard => "discard",
            Self::Release => "release",
            Self::Reschedule(_) => "reschedule",
            Self::Retry { .. } => "retry",
            Self::RetryGraph => "retry_graph",
            Self::SetPriority(_) => "set_priority",
        }
    }
}

/// The result of a change.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    pub(crate) changed: Vec<Changed>,
    pub(crate) refused: Vec<RefusedRetry>,
}

/// A job that was changed.
#[derive(Clone, Debug)]
pub(crate) struct Changed {
    pub(crate) id: JobId,
    /// The fields of its event. `None` for a deleted job and for another priority, which have no event.
    pub(crate) told: Option<Told>,
}

/// A changed job, with the fields of its event.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) kind: Kind,
    pub(crate) queue: QueueName,
    pub(crate) attempt: u16,
    /// Its new state.
    pub(crate) state: JobState,
}

fn told(row: &PgRow) -> Result<Told> {
    Ok(Told {
        kind: Kind::from_stored(row.try_get("kind")?),
        queue: QueueName::from_stored(row.try_get("queue")?),
        attempt: row.try_get::<i16, _>("attempt")?.unsigned_abs(),
        state: row.try_get::<&str, _>("state")?.parse()?,
    })
}

/// A row of the log.
#[derive(Clone, Debug)]
pub(crate) struct LogEntry {
    pub(crate) id: Uuid,
    pub(crate) actor: String,
    pub(crate) verb: &'static str,
    pub(crate) subject: Value,
}

impl<'c> Store<'c> {
    /// Changes the jobs whose state allows it, of `states` where some are given. `lock_wait`
    /// limits the wait for each locked row; default: the connection's own `lock_timeout`. After a timeout nothing is
    /// changed, and [`is_lock_timeout`](crate::Error::is_lock_timeout) of the error is true. The statement logs the `entry`, or adds
    /// to it.
    pub(crate) async fn change(
        self,
        verb: Verb,
        ids: &[JobId],
        states: Option<StateSet>,
        lock_wait: Option<Duration>,
        entry: &LogEntry,
    ) -> Result<Changes> {
        let statement = match verb {
            Verb::Cancel => &self.statements.cancel_jobs,
            Verb::Delete => &self.statements.delete_jobs,
            Verb::Discard => &self.statements.discard_jobs,
            Verb::Release => &self.statements.release_jobs,
            Verb::Reschedule(_) => &self.statements.reschedule_jobs,
            Verb::Retry { .. } => &self.statements.retry_jobs,
            Verb::RetryGraph => &self.statements.retry_graph,
            Verb::SetPriority(_) => &self.statements.set_priority,
        };
        let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
        let LogEntry { id, actor, verb: name, subject } = entry;
        let query = query(statement).bind(ids).bind(lock_wait.map(lock_timeout));
        let query = query.bind(id).bind(actor).bind(name).bind(subject);
        let states = states.map(state_names);
        let query = match verb {
            Verb::Cancel | Verb::Delete | Verb::Discard | Verb::Release => query.bind(states),
            Verb::Reschedule(at) => query.bind(states).bind(at),
            Verb::Retry { afresh } => query.bind(states).bind(afresh),
            Verb::RetryGraph => query,
            Verb::SetPriority(priority) => query.bind(states).bind(priority),
        };
        let rows = query.fetch_all(self.connection).await?;
        let is_told = !matches!(verb, Verb::Delete | Verb::SetPriority(_));
        let mut changes = Changes { changed: Vec::with_capacity(rows.len()), refused: Vec::new() };
        for row in &rows {
            let id = JobId::from(row.try_get::<Uuid, _>("id")?);
            if row.try_get("refused")? {
                let holder = row.try_get::<Option<Uuid>, _>("holder")?.map(JobId::from);
                changes.refused.push(RefusedRetry::new(id, holder));
            } else {
                changes.changed.push(Changed { id, told: is_told.then(|| told(row)).transpose()? });
            }
        }
        Ok(changes)
    }

    /// Makes the holder of a key give up its claim for good.
    pub(crate) async fn release_claim(self, key: &str) -> Result<Option<JobId>> {
        let row = query(&self.statements.release_claim).bind(key).fetch_one(self.connection).await?;
        Ok(row.try_get::<Option<Uuid>, _>("id")?.map(JobId::from))
    }

    /// Logs a change, or adds to the number of jobs of one that is logged already.
    pub(crate) fn log_change(self, entry: &'c LogEntry, jobs: Option<usize>) -> AnswerFuture<'c, ()> {
        let LogEntry { id, actor, verb, subject } = entry;
        let query = query(&self.statements.log_change).bind(id).bind(actor).bind(verb).bind(subject);
        let jobs = jobs.map(|jobs| i64::try_from(jobs).unwrap_or(i64::MAX));
        Box::pin(async move {
            query.bind(jobs).execute(self.connection).await?;
            Ok(())
        })
    }
}
