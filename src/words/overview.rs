//! Groups, for operators.

use serde::Serialize;
use time::OffsetDateTime;

use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::why::Obstacle;

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
