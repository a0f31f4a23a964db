//! Runners, and how long final jobs are kept.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uniqueue::period::seconds;
use uniqueue::{Call, JobState, Keep, Kind, QueueName, stored_time};
use uuid::Uuid;

use crate::Admin;
use crate::statement::{Arguments, ask};

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
}
