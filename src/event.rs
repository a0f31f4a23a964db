//! What happened to a job, as [`Client::events`](crate::Client::events) tells it.

use std::time::Duration;

use crate::ident::{JobId, Kind, QueueName};
use crate::job::{Inserted, JobRow};
use crate::state::JobState;

/// Why a job is discarded on re-entry.
pub(crate) const TAKEN: &str = "another job holds the unique key";

/// Something that happened to a job: which job it is, and [what](Happened).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The job's id.
    pub id: JobId,
    /// Its type name.
    pub kind: Kind,
    /// Its queue.
    pub queue: QueueName,
    /// The attempt that it was in, counted from 1; 0 before the first.
    pub attempt: u16,
    /// What happened.
    pub happened: Happened,
}

impl Event {
    /// What an insert did. A duplicate tells of the job that was there.
    pub(crate) fn of_insert(inserted: &Inserted) -> Self {
        let JobRow { id, kind, queue, attempt, state, .. } = &inserted.job;
        let happened = if inserted.duplicate {
            Happened::Duplicate { state: *state }
        } else {
            Happened::Inserted { state: *state, replaced: inserted.replaced }
        };
        Self { id: *id, kind: kind.clone(), queue: queue.clone(), attempt: *attempt, happened }
    }
}

/// What happened to a job.
///
/// What ends an attempt is told when the database has taken it, so no event tells of a result that
/// did not count; only [`Happened::Stale`] does, and says so.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Happened {
    /// It was inserted. In the caller's own transaction: inserted, and not committed yet.
    #[non_exhaustive]
    Inserted {
        /// `Available`, `Scheduled` or `Pending`.
        state: JobState,
        /// The job that it replaced, which is cancelled.
        replaced: Option<JobId>,
    },
    /// It claims the unique key of a job that somebody wanted to insert. Nothing was inserted.
    #[non_exhaustive]
    Duplicate {
        /// Its state when it was met.
        state: JobState,
    },
    /// A worker has begun an attempt.
    #[non_exhaustive]
    Started {
        /// How long it waited for this attempt since it was due.
        waited: Duration,
    },
    /// Its work is done.
    Completed,
    /// It will be tried again: an attempt failed, or somebody retried it by hand.
    #[non_exhaustive]
    Retried {
        /// The wait before the next attempt.
        after: Duration,
        /// What went wrong. `None`: by hand.
        error: Option<String>,
    },
    /// Its worker wants it to come back later. The attempt is not used up.
    #[non_exhaustive]
    Snoozed {
        /// The wait before it is available again.
        after: Duration,
    },
    /// It was stopped for good, by its worker or by hand.
    #[non_exhaustive]
    Cancelled {
        /// What its worker said. `None`: by hand.
        reason: Option<String>,
    },
    /// It was given up: out of attempts, by its worker, or by its policy because another job holds
    /// its unique key.
    #[non_exhaustive]
    Discarded {
        /// What its worker said, or what went wrong last.
        reason: String,
    },
    /// It was in the hands of a runner that died, and is available again. The attempt is used up.
    Rescued,
    /// The runner that had it could not work it, and gave it back. The attempt is not used up.
    GivenBack,
    /// The result of an attempt came too late and was dropped: the job was rescued, cancelled or
    /// retried meanwhile. Or it had been recorded before, and only the answer was lost: where that completed the job, it
    /// is told as `Completed`. The event's attempt is that of the result.
    Stale,
}

impl Happened {
    /// The event's name in one word, as the metrics spell it: `inserted`, `given_back`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Happened::Inserted { .. } => "inserted",
            Happened::Duplicate { .. } => "duplicate",
            Happened::Started { .. } => "started",
            Happened::Completed => "completed",
            Happened::Retried { .. } => "retried",
            Happened::Snoozed { .. } => "snoozed",
            Happened::Cancelled { .. } => "cancelled",
            Happened::Discarded { .. } => "discarded",
            Happened::Rescued => "rescued",
            Happened::GivenBack => "given_back",
            Happened::Stale => "stale",
        }
    }
}
