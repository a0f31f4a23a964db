//! What people watch: jobs that run, and kinds that fail.

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
    /// How many it has.
    pub max_attempts: u16,
    /// How long ago this attempt started. `None`: somebody has set the job running by hand.
    pub running_for: Option<Duration>,
    /// What its runner is called. `None`: the runner is not known any more.
    pub runner: Option<String>,
    /// Whether the runner's lease holds. Where not, the job is about to be rescued.
    pub runner_is_alive: bool,
    /// How far it said it was, last.
    pub progress: Option<Value>,
    /// Its unique key.
    pub unique_key: Option<String>,
}

/// A kind of which jobs failed and wait for their next attempt, or were given up; as
/// [`Client::failing_kinds`](crate::Client::failing_kinds) lists it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FailingKind {
    /// The kind.
    pub kind: Kind,
    /// The queues of these jobs.
    pub queues: Vec<QueueName>,
    /// How many wait for their next attempt.
    pub retryable: u64,
    /// How many were given up.
    pub discarded: u64,
    /// When the last of them failed.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_failed_at: Option<OffsetDateTime>,
    /// What the last of them failed with.
    pub last_error: Option<String>,
    /// That job.
    pub last_job: Option<JobId>,
}
