//! Events of jobs, which [`Client::events`](crate::Client::events) receives.

use std::time::Duration;

use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::job::{Inserted, JobRow};
use crate::words::state::JobState;

/// The reason of a job that is discarded on re-entry.
pub(crate) const TAKEN: &str = "another job holds the unique key";

/// An event of a job: the job, and what [happened](Happened).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The job's id.
    pub id: JobId,
    /// Its type name.
    pub kind: Kind,
    /// Its queue.
    pub queue: QueueName,
    /// The attempt of the event, counted from 1, or 0 before the first attempt.
    pub attempt: u16,
    /// The event itself.
    pub happened: Happened,
}

impl Event {
    /// The event of an insert. For a duplicate it is an event of the holder.
    pub(crate) fn of_insert(inserted: &Inserted) -> Self {
        let JobRow { id, kind, queue, attempt, state, .. } = &inserted.job;
        let state = *state;
        let happened = match inserted {
            Inserted { updated: true, .. } => Happened::Updated { state },
            Inserted { covered: true, .. } => Happened::Covered { state },
            Inserted { duplicate: true, .. } => Happened::Duplicate { state },
            Inserted { replaced, .. } => Happened::Inserted { state, replaced: *replaced },
        };
        Self { id: *id, kind: kind.clone(), queue: queue.clone(), attempt: *attempt, happened }
    }
}

/// An event of a job.
///
/// The end of an attempt is sent after the database has recorded it, so an event stands for a result
/// that counted. The only exception is [`Happened::Stale`].
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Happened {
    /// It was inserted. In a caller's transaction it is not committed yet.
    #[non_exhaustive]
    Inserted {
        /// `Available`, `Scheduled` or `Pending`.
        state: JobState,
        /// The job that it replaced, which is cancelled.
        replaced: Option<JobId>,
    },
    /// It holds the unique key of an insert, which was a duplicate, inserted nothing, and left it as it is.
    #[non_exhaustive]
    Duplicate {
        /// The holder's state at the time of the insert.
        state: JobState,
    },
    /// A duplicate changed it in place, under `update`. In a caller's transaction that is not committed yet.
    #[non_exhaustive]
    Updated {
        /// Its state at the time of the insert.
        state: JobState,
    },
    /// It starts after the transaction of a duplicate has committed, under `run_again`.
    #[non_exhaustive]
    Covered {
        /// Its state at the time of the insert.
        state: JobState,
    },
    /// A worker has started an attempt.
    #[non_exhaustive]
    Started {
        /// How long it waited for this attempt after it was due.
        waited: Duration,
    },
    /// It succeeded.
    Completed,
    /// It will be retried, because an attempt failed or an operator retried it.
    #[non_exhaustive]
    Retried {
        /// The wait before the next attempt.
        after: Duration,
        /// The error of the attempt. `None` if an operator retried it.
        error: Option<String>,
    },
    /// Its worker postponed it. The attempt is not used up.
    #[non_exhaustive]
    Snoozed {
        /// The wait before it is available again.
        after: Duration,
    },
    /// It was cancelled, by its worker or by an operator.
    #[non_exhaustive]
    Cancelled {
        /// The worker's reason. `None` if an operator cancelled it.
        reason: Option<String>,
    },
    /// It was discarded: it had no attempts left, its worker discarded it, its policy did because another job holds its
    /// unique key, or its runner died for the third time in a row while it had the job.
    #[non_exhaustive]
    Discarded {
        /// The worker's reason, or the last error.
        reason: String,
    },
    /// Its runner died, and it comes back as a suspect after a back-off. The first crash uses up no attempt.
    Rescued,
    /// Its runner could not work it and gave it back. The attempt is not used up.
    GivenBack,
    /// The result of an attempt was dropped, because the job was rescued, cancelled or retried before.
    /// Or the result was recorded before and only the answer was lost; a result that completed the job
    /// is then sent as `Completed`. The event's attempt is that of the result.
    Stale,
}

impl Happened {
    /// Returns the event's name as in the metrics, such as `inserted` or `given_back`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Happened::Inserted { .. } => "inserted",
            Happened::Duplicate { .. } => "duplicate",
            Happened::Updated { .. } => "updated",
            Happened::Covered { .. } => "covered",
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
