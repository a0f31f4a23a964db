//! Running jobs and failing kinds, for operators.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use crate::ident::{JobId, Kind, QueueName};

/// A running job and its runner, as [`Client::running_jobs`](crate::Client::running_jobs) lists it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunningJobInfo {
    /// The job.
    pub id: JobId,
    /// Its type name.
    pub kind: Kind,
    /// Its queue.
    pub queue: QueueName,
    /// Which attempt this is, counted from 1.
    pub attempt: u16,
    /// The number of attempts that it may take.
    pub max_attempts: u16,
    /// How long ago this attempt started. `None` if the state was set by hand in SQL.
    pub running_for: Option<Duration>,
    /// The name of its runner. `None` if the runner's row is gone.
    pub runner: Option<String>,
    /// Whether the runner's lease is valid. If not, the job is about to be rescued.
    pub runner_is_alive: bool,
    /// The progress that it reported last.
    pub progress: Option<Value>,
    /// Its unique key.
    pub unique_key: Option<String>,
}

/// A kind with failed jobs, retryable or discarded, as
/// [`Client::failing_kinds`](crate::Client::failing_kinds) lists it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FailingKind {
    /// The kind.
    pub kind: Kind,
    /// The queues of these jobs.
    pub queues: Vec<QueueName>,
    /// How many jobs wait for their next attempt.
    pub retryable: u64,
    /// How many jobs were discarded.
    pub discarded: u64,
    /// When the last of them failed.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_failed_at: Option<OffsetDateTime>,
    /// The error of the last of them.
    pub last_error: Option<String>,
    /// The id of the last of them.
    pub last_job: Option<JobId>,
}
