//! Jobs as remote workers fetch and finish them: without a runner, one call at a time.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::words::attempt_error::AttemptError;
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::job_error::{ErrorDetails, JobError};
use crate::words::state::JobState;

/// One run of a job. A result counts only for the run that made it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
pub struct JobRun {
    /// The job.
    pub id: JobId,
    /// The number of the run, which only grows.
    pub run: u32,
}

/// A job that [`Remote::fetch_jobs`](crate::Remote::fetch_jobs) started.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FetchedJob {
    /// Its id and this run, which the result must name.
    #[serde(flatten)]
    pub run: JobRun,
    /// Its type name.
    pub kind: Kind,
    /// Its queue.
    pub queue: QueueName,
    /// The payload as JSON text.
    pub args: Box<RawValue>,
    /// JSON that travels along.
    pub meta: Map<String, Value>,
    /// Which attempt this is, counted from 1.
    pub attempt: u16,
    /// How many attempts it may have.
    pub max_attempts: u16,
    /// Higher runs first.
    pub priority: i16,
    /// How many times in a row its worker died while it had the job.
    pub crashes: u16,
    /// When it was inserted, by the database's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When it could run, at the earliest.
    #[serde(with = "time::serde::rfc3339")]
    pub scheduled_at: OffsetDateTime,
    /// When the job is taken back, unless [`Remote::extend_jobs`](crate::Remote::extend_jobs) extends the time.
    #[serde(with = "time::serde::rfc3339")]
    pub reserved_until: OffsetDateTime,
    /// The errors of its attempts, oldest first.
    pub errors: Vec<AttemptError>,
    /// The progress that a worker reported last.
    pub progress: Option<Value>,
    /// The key that two jobs share when they are the same.
    pub unique_key: Option<String>,
    /// The group that it belongs to within its queue.
    pub group_key: Option<String>,
    /// The id of the worker's row among the runners.
    pub worker: Uuid,
    /// How long the job may run, by its registered kind. `None`: no limit.
    #[serde(with = "crate::period::seconds::option")]
    pub timeout: Option<Duration>,
}

/// The result of one run, for [`Remote::finish_jobs`](crate::Remote::finish_jobs).
#[derive(Clone, Debug)]
#[must_use]
pub struct JobResult {
    pub(crate) run: JobRun,
    /// The word of the SQL function `finish_jobs`.
    pub(crate) outcome: &'static str,
    pub(crate) delay: Option<Duration>,
    pub(crate) error: Option<String>,
    pub(crate) details: Option<Value>,
    pub(crate) output: Option<Value>,
    pub(crate) progress: Option<Value>,
}

impl JobResult {
    const fn of(run: JobRun, outcome: &'static str) -> Self {
        Self { run, outcome, delay: None, error: None, details: None, output: None, progress: None }
    }

    /// The work is done.
    pub const fn complete(run: JobRun) -> Self {
        Self::of(run, "complete")
    }

    /// The attempt failed. The job is retried after the error's own delay ([`JobError::retry_after`]), or as its registered
    /// kind says, or else after 1 s, doubled with each attempt up to an hour. It is discarded if no attempt is left, or if the
    /// error is [permanent](JobError::permanent).
    pub fn fail(run: JobRun, error: JobError) -> Self {
        let details = ErrorDetails::of(&error, None);
        Self { delay: details.retry_after, ..Self::of(run, "retry").with_error(&error, &details) }
    }

    /// The job runs again after this time. The attempt is not used up.
    pub fn snooze(run: JobRun, delay: Duration) -> Self {
        Self { delay: Some(delay), ..Self::of(run, "snooze") }
    }

    /// The job had not started, and goes back to its place in the queue. The attempt is not used up.
    pub const fn give_back(run: JobRun) -> Self {
        Self::of(run, "give_back")
    }

    /// The worker stopped while the job ran: it goes back to its place in the queue. The attempt is not used up. A job in
    /// order keeps the head of its group.
    pub const fn interrupt(run: JobRun) -> Self {
        Self::of(run, "interrupt")
    }

    /// The job is cancelled: the work is not wanted any more.
    pub fn cancel(run: JobRun, reason: JobError) -> Self {
        let details = ErrorDetails::of(&reason, None);
        Self::of(run, "cancel").with_error(&reason, &details)
    }

    /// The job is discarded: another attempt cannot succeed.
    pub fn discard(run: JobRun, reason: JobError) -> Self {
        let details = ErrorDetails::of(&reason, None);
        Self::of(run, "discard").with_error(&reason, &details)
    }

    /// The output of a completed job. Default: none.
    pub fn output(mut self, output: Value) -> Self {
        self.output = Some(output);
        self
    }

    /// The job's last progress. Default: its progress stays.
    pub fn progress(mut self, progress: Value) -> Self {
        self.progress = Some(progress);
        self
    }

    fn with_error(self, error: &JobError, details: &ErrorDetails) -> Self {
        // PostgreSQL stores no NUL.
        Self { error: Some(error.to_string().replace('\0', "\u{fffd}")), details: details.members(), ..self }
    }
}

/// The outcome of one result that a worker sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FinishedRun {
    /// The run.
    #[serde(flatten)]
    pub run: JobRun,
    /// Whether the result counted. The result of a run that is over changes nothing.
    pub counted: bool,
    /// The job's state. `None`: there is no such job.
    pub state: Option<JobState>,
    /// Whether another transaction has locked the job, so that the result is not recorded yet. Send it again later.
    pub locked: bool,
}

/// A reservation, as [`Remote::extend_jobs`](crate::Remote::extend_jobs) left it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HeldRun {
    /// The run.
    #[serde(flatten)]
    pub run: JobRun,
    /// Whether the job still belongs to the worker. If not, its result will not count.
    pub held: bool,
    /// The job's state. `None`: there is no such job.
    pub state: Option<JobState>,
    /// The end of the reservation. `None`: the job does not belong to the worker.
    #[serde(with = "time::serde::rfc3339::option")]
    pub reserved_until: Option<OffsetDateTime>,
}

/// The maintenance that [`Remote::maintain`](crate::Remote::maintain) did: the number of jobs of each service.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Maintained {
    /// Jobs that became due.
    pub promoted: u64,
    /// Jobs that were taken back from workers that died, or whose reservation ran out.
    pub rescued: u64,
    /// Final jobs that were deleted.
    pub pruned: u64,
    /// Jobs whose parents have ended.
    pub released: u64,
    /// Jobs that expired.
    pub expired: u64,
    /// How long to wait before the next call: 20 ms to 1 s.
    #[serde(serialize_with = "crate::period::seconds::serialize")]
    pub next_in: Duration,
}
