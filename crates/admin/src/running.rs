//! Running jobs, and jobs that should have moved.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use uniqueue::period::seconds;
use uniqueue::{JobId, JobState, Kind, QueueName, stored_time};
use uuid::Uuid;

use crate::{Admin, List, ObstacleCode};

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

impl<'a> Admin<'a> {
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
