//! Runs, their results, and the answers to both.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use uniqueue::{JobError, JobId, JobState, error_details, stored_time};
use uniqueue_admin::statement::{Arguments, arguments};

/// Ends runs of jobs.
pub(crate) const FINISH_JOBS: &str = "
SELECT f.id, f.run, f.counted, f.state, f.locked, f.not_stored
FROM jsonb_to_record($1::jsonb) AS g (
    ids uuid[], runs integer[], outcomes text[], delays interval[], errors text[], outputs text[], progress text[],
    details text[]
)
CROSS JOIN /* schema */finish_jobs(
    g.ids, g.runs, g.outcomes, g.delays, g.errors, g.outputs, g.progress, g.details
) AS f";

/// Reserves running jobs anew.
pub(crate) const EXTEND_JOBS: &str = "
SELECT e.id, e.run, e.held AS counted, e.state, e.reserved_until
FROM jsonb_to_record($1::jsonb) AS g (ids uuid[], runs integer[], reserve interval)
CROSS JOIN /* schema */extend_jobs(g.ids, g.runs, g.reserve) AS e";

/// One run of a job. A result counts only for the run that made it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct JobRun {
    /// The job.
    pub id: JobId,
    /// The number of the run, which only grows.
    pub run: u32,
}

/// The result of one run, for [`Remote::finish_jobs`](crate::Remote::finish_jobs).
#[derive(Clone, Debug)]
#[must_use]
pub struct JobResult {
    run: JobRun,
    /// The word of the SQL function `finish_jobs`.
    outcome: &'static str,
    delay: Option<Duration>,
    error: Option<String>,
    details: Option<Value>,
    output: Option<Value>,
    progress: Option<Value>,
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
        Self::of(run, "retry").with_error(&error)
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
        Self { delay: None, ..Self::of(run, "cancel").with_error(&reason) }
    }

    /// The job is discarded: another attempt cannot succeed.
    pub fn discard(run: JobRun, reason: JobError) -> Self {
        Self { delay: None, ..Self::of(run, "discard").with_error(&reason) }
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

    fn with_error(self, error: &JobError) -> Self {
        let (delay, details) = error_details(error);
        // PostgreSQL stores no NUL.
        Self { delay, error: Some(error.to_string().replace('\0', "\u{fffd}")), details, ..self }
    }
}

/// The answer to a report of a run: to a result, or to a longer reservation.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Reported {
    /// The run.
    #[serde(flatten)]
    pub run: JobRun,
    /// Whether the report counted. A report of a run that is over changes nothing, and no later one will count.
    pub counted: bool,
    /// The job's state. `None`: there is no such job.
    pub state: Option<JobState>,
    /// Whether another transaction has locked the job, so that a result is not recorded yet. Send it again later.
    #[serde(default)]
    pub locked: bool,
    /// The end of the reservation, after `extend_jobs`. `None`: after `finish_jobs`, or the worker no longer has the job.
    #[serde(default, with = "stored_time::option")]
    pub reserved_until: Option<OffsetDateTime>,
}

/// The answer to a result, with the values that it counted without.
#[derive(Deserialize)]
pub(crate) struct Finished {
    #[serde(flatten)]
    reported: Reported,
    not_stored: Option<String>,
}

impl Finished {
    pub(crate) fn warn(self) -> Reported {
        let Self { reported, not_stored } = self;
        if let Some(values) = not_stored {
            tracing::warn!(job.id = %reported.run.id, values, "a result counts without the values that cannot be stored");
        }
        reported
    }
}

/// The arguments of [`FINISH_JOBS`]. JSON is sent as text: PostgreSQL cannot store all of it, and one value must not fail the rest.
pub(crate) fn finished(results: &[JobResult]) -> Arguments {
    let text = |value: &Option<Value>| value.as_ref().map(Value::to_string);
    arguments(json!({
        "ids": each(results, |result| result.run.id),
        "runs": each(results, |result| result.run.run),
        "outcomes": each(results, |result| result.outcome),
        "delays": each(results, |result| result.delay.map(interval)),
        "errors": each(results, |result| result.error.clone()),
        "outputs": each(results, |result| text(&result.output)),
        "progress": each(results, |result| text(&result.progress)),
        "details": each(results, |result| text(&result.details)),
    }))
}

/// The arguments of [`EXTEND_JOBS`].
pub(crate) fn extended(runs: &[JobRun], reserve: Duration) -> Arguments {
    arguments(json!({
        "ids": each(runs, |run| run.id), "runs": each(runs, |run| run.run), "reserve": interval(reserve),
    }))
}

fn each<'a, R, T>(of: &'a [R], value: impl FnMut(&'a R) -> T) -> Vec<T> {
    of.iter().map(value).collect()
}

/// A length of time as the text of an interval.
pub(crate) fn interval(length: Duration) -> String {
    format!("{} s", length.as_secs_f64())
}
