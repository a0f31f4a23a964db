//! Running jobs, failing kinds, runners, stuck jobs and retentions, for operators.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::ident::{JobId, Kind, QueueName};
use crate::retention::Keep;
use crate::state::JobState;
use crate::why::{Obstacle, ObstacleCode};

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
    #[serde(serialize_with = "crate::period::seconds::serialize_option")]
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

/// The failed jobs of a kind whose last errors have one code, as
/// [`Client::failing_codes`](crate::Client::failing_codes) lists them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FailingCode {
    /// The kind.
    pub kind: Kind,
    /// The code. `None`: their last errors have none.
    pub code: Option<String>,
    /// How many of these jobs wait for their next attempt.
    pub retryable: u64,
    /// How many were discarded.
    pub discarded: u64,
    /// When the last of them failed.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_failed_at: Option<OffsetDateTime>,
    /// The error of the last of them.
    pub last_error: Option<String>,
    /// The id of the last of them.
    pub last_job: Option<JobId>,
}

/// The failed jobs of a kind whose last errors have one pattern, as
/// [`Client::failing_errors`](crate::Client::failing_errors) lists them.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FailingError {
    /// The first line of the errors, with a `#` for each word with a digit.
    pub error_pattern: String,
    /// How many of these jobs wait for their next attempt.
    pub retryable: u64,
    /// How many were discarded.
    pub discarded: u64,
    /// When the last of them failed.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_failed_at: Option<OffsetDateTime>,
    /// The error of the last of them.
    pub last_error: String,
    /// The id of the last of them.
    pub last_job: JobId,
}

/// A runner, as [`Client::runners`](crate::Client::runners) lists it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunnerInfo {
    /// Its id. A runner that lost its lease goes on under a new one.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// The version of the application ([`Runner::version`](crate::Runner::version)). `None` if it did not say.
    pub version: Option<String>,
    /// The name of the machine that it runs on. `None` if it did not say.
    pub host: Option<String>,
    /// When it started, or took a new lease.
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
    /// Whether its lease is valid. The jobs of other runners are rescued.
    pub is_alive: bool,
    /// How long ago its last heartbeat was. `None` if it is unknown.
    #[serde(serialize_with = "crate::period::seconds::serialize_option")]
    pub heartbeat_age: Option<Duration>,
    /// How long its lease lasts without another heartbeat. `None` if it ran out.
    #[serde(serialize_with = "crate::period::seconds::serialize_option")]
    pub lease_left: Option<Duration>,
    /// Whether it waits for a wake-up.
    pub is_idle: bool,
    /// The queues that it works.
    pub queues: Vec<RunnerQueue>,
    /// The kinds that it has a worker for. `None` if it did not say.
    pub kinds: Option<Vec<Kind>>,
    /// How many jobs it completed, as of its last heartbeat that counted them.
    pub completed: u64,
    /// How many attempts failed, likewise.
    pub failed: u64,
    /// How long it keeps completed jobs of queues without a retention. `None` if it did not say.
    pub keep_completed: Option<Keep>,
    /// How long it keeps cancelled jobs.
    pub keep_cancelled: Option<Keep>,
    /// How long it keeps discarded jobs.
    pub keep_discarded: Option<Keep>,
}

/// A queue of a runner.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunnerQueue {
    /// The queue.
    pub queue: QueueName,
    /// How many of its jobs the runner could run at once when it started. `None` if it did not say.
    pub slots: Option<u32>,
    /// How many of its jobs the runner has, fetched or running. Counted no further than 10,000.
    pub running: u64,
}

/// A job that should have moved and has not, as [`Client::stuck_jobs`](crate::Client::stuck_jobs) lists it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StuckJob {
    /// The job.
    pub id: JobId,
    /// Its type name.
    pub kind: Kind,
    /// Its queue.
    pub queue: QueueName,
    /// Its state.
    pub state: JobState,
    /// How many attempts were started.
    pub attempt: u16,
    /// Its runner, if it runs.
    pub runner: Option<Uuid>,
    /// Since when it has been stuck. `None` if that is unknown.
    #[serde(with = "time::serde::rfc3339::option")]
    pub since: Option<OffsetDateTime>,
    /// How long it has been stuck.
    #[serde(serialize_with = "crate::period::seconds::serialize_option")]
    pub stuck_for: Option<Duration>,
    /// The reason, as [`Client::why`](crate::Client::why) has it.
    pub code: ObstacleCode,
    /// The reason as a sentence.
    pub reason: String,
    /// The remedy.
    pub remedy: String,
}

/// A group of a queue, as [`Client::groups`](crate::Client::groups) lists it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GroupInfo {
    /// Its queue.
    pub queue: QueueName,
    /// Its key.
    pub group: String,
    /// How many of its jobs run, counted to 1,001.
    pub running: u64,
    /// How many may run at once, as its first job and the queue say. `None`: no limit.
    pub limit: Option<u32>,
    /// How many of its jobs are available, counted to 1,001 at each priority.
    pub waiting: u64,
    /// Its first available job.
    pub head: Option<JobId>,
    /// That job's type name.
    pub head_kind: Option<Kind>,
    /// Since when that job could have run.
    #[serde(with = "time::serde::rfc3339::option")]
    pub head_since: Option<OffsetDateTime>,
    /// The obstacle of the queue or of the group for that job. `None`: there is none, or no job waits. [`Client::why`] says of
    /// any job all that keeps it.
    ///
    /// [`Client::why`]: crate::Client::why
    pub held_by: Option<Obstacle>,
    /// Until when a hold or a rate lets none of its jobs start. `None`: neither does.
    #[serde(with = "time::serde::rfc3339::option")]
    pub held_until: Option<OffsetDateTime>,
}

/// A group that is held, as [`Client::held_groups`](crate::Client::held_groups) lists it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HeldGroup {
    /// Its queue.
    pub queue: QueueName,
    /// Its key.
    pub group: String,
    /// Until when no job of it is fetched.
    #[serde(with = "time::serde::rfc3339")]
    pub held_until: OffsetDateTime,
}

/// How long a queue keeps its jobs in one final state, as [`Client::retentions`](crate::Client::retentions) lists it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueRetention {
    /// The queue.
    pub queue: QueueName,
    /// `completed`, `cancelled` or `discarded`.
    pub state: JobState,
    /// How long such jobs are kept.
    pub keep: Keep,
    /// Whether the queue leaves it to the runners. Then `keep` is a runner's default.
    pub is_default: bool,
    /// How many of the jobs looked at should have been deleted more than five minutes ago.
    pub overdue: u64,
    /// How long ago the first of them should have been deleted. `None` if there is none.
    #[serde(serialize_with = "crate::period::seconds::serialize_option")]
    pub overdue_by: Option<Duration>,
    /// Whether a live runner prunes.
    pub has_pruner: bool,
}
