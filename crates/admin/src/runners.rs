//! Runners, their jobs, jobs that should have moved, and how long final jobs are kept.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use uniqueue::period::seconds;
use uniqueue::{Call, JobId, JobState, Keep, Kind, QueueName, stored_time};
use uuid::Uuid;

use crate::statement::{Arguments, ask};
use crate::{Admin, List, ObstacleCode};

/// A runner, as [`Admin::runners`] lists it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunnerInfo {
    /// Its id. A runner that lost its lease goes on under a new one.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// The version of the application ([`Runner::version`](uniqueue::Runner::version)). `None` if it did not say.
    pub version: Option<String>,
    /// The name of the machine that it runs on. `None` if it did not say.
    pub host: Option<String>,
    /// When it started, or took a new lease.
    #[serde(with = "stored_time")]
    pub started_at: OffsetDateTime,
    /// Whether its lease is valid. The jobs of other runners are rescued.
    pub is_alive: bool,
    /// How long ago its last heartbeat was. `None` if it is unknown.
    #[serde(with = "seconds::option")]
    pub heartbeat_age: Option<Duration>,
    /// How long its lease lasts without another heartbeat. `None` if it ran out.
    #[serde(with = "seconds::option")]
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
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunnerQueue {
    /// The queue.
    pub queue: QueueName,
    /// How many of its jobs the runner could run at once when it started. `None` if it did not say.
    pub slots: Option<u32>,
    /// How many of its jobs the runner has, fetched or running. Counted no further than 10,000.
    pub running: u64,
}

/// How long a queue keeps its jobs in one final state, as [`Admin::retentions`] lists it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
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
    #[serde(with = "seconds::option")]
    pub overdue_by: Option<Duration>,
    /// Whether a live runner prunes.
    pub has_pruner: bool,
}

impl<'a> Admin<'a> {
    /// Lists the runners with their queues, their slots and the age of their heartbeats: live ones first, at most 1,000.
    /// A runner that died is listed for a day, or until its jobs are rescued.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn runners(self) -> Call<'a, Vec<RunnerInfo>> {
        ask(self.client, include_str!("sql/runners.sql"), Arguments::new())
    }

    /// Lists how long each queue keeps its final jobs, and how many of 40,000 jobs looked at should be gone. As the view
    /// `retention`. [`QueueChanges::keep_completed`](uniqueue::QueueChanges::keep_completed) changes it.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn retentions(self) -> Call<'a, Vec<QueueRetention>> {
        ask(self.client, include_str!("sql/retentions.sql"), Arguments::new())
    }

    /// Lists running jobs with their runners, the longest-running first. Read by index, so the size of the table does not
    /// matter. As the view `running_job`.
    pub fn running_jobs(self) -> List<'a, RunningJobInfo> {
        List::new(self.client, include_str!("sql/running_jobs.sql"))
    }

    /// Lists jobs that should have moved and have not, each with a reason and a remedy: running ones of dead runners,
    /// running ones that take long, due ones that were not promoted, available ones that no runner takes. The longest
    /// stuck comes first. The limit counts for each reason as well. As the view `stuck_job`, and read by index.
    pub fn stuck_jobs(self) -> List<'a, StuckJob> {
        let list = List::new(self.client, include_str!("sql/stuck_jobs.sql"));
        list.running_for(Duration::from_secs(3_600)).waiting_for(Duration::from_secs(60))
    }
}

/// A running job and its runner, as [`Admin::running_jobs`] lists it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
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
    #[serde(with = "seconds::option")]
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

/// A job that should have moved and has not, as [`Admin::stuck_jobs`] lists it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
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
    #[serde(with = "stored_time::option")]
    pub since: Option<OffsetDateTime>,
    /// How long it has been stuck.
    #[serde(with = "seconds::option")]
    pub stuck_for: Option<Duration>,
    /// The reason, as [`Admin::why`] has it.
    pub code: ObstacleCode,
    /// The reason as a sentence.
    pub reason: String,
    /// The remedy.
    pub remedy: String,
}

impl List<'_, StuckJob> {
    /// Lists running jobs whose attempt began longer ago than this, also those of live runners. Default: 1 h.
    pub fn running_for(self, length: Duration) -> Self {
        self.lasting("running_for", length)
    }

    /// Lists waiting jobs that have been due for longer than this. Default: 1 min.
    pub fn waiting_for(self, length: Duration) -> Self {
        self.lasting("waiting_for", length)
    }
}
