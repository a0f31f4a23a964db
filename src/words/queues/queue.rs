//! The settings of queues.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use crate::words::ident::QueueName;
use crate::words::rate::Rate;
use crate::words::retention::Keep;

/// The settings of a queue. By default a queue is not paused, has no limit and no rate, and keeps its jobs by the runners' retention.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueSettings {
    /// The queue.
    pub name: QueueName,
    /// When it was paused. `None` if it is not paused.
    #[serde(with = "crate::words::stored_time::option")]
    pub paused_at: Option<OffsetDateTime>,
    /// The name of the actor that paused it. `None` if no actor was named, or it is not paused.
    pub paused_by: Option<String>,
    /// Why it was paused. `None` if no reason was given, or it is not paused.
    pub pause_reason: Option<String>,
    /// How many of its jobs may run at once, over all runners. `None` means as many as the runners have slots for.
    pub limit: Option<u32>,
    /// How many jobs of each of its groups may run at once, over all runners. `None` means as many as the jobs
    /// themselves allow.
    pub group_limit: Option<u32>,
    /// How many available jobs it may have after an insert that adds to them. `None` means any number.
    pub max_waiting: Option<u32>,
    /// Whether its groups, and the jobs without a group as one more, take turns within a priority.
    pub fair: bool,
    /// How many of its jobs may start in a time, over all runners. `None` means any number.
    pub rate: Option<Rate>,
    /// How many jobs of each of its groups may start in a time, over all runners. `None` means any number.
    pub group_rate: Option<Rate>,
    /// Until when nothing is fetched from it, since a worker or an operator said so. `None` if it is not held.
    #[serde(with = "crate::words::stored_time::option")]
    pub held_until: Option<OffsetDateTime>,
    /// How long its completed jobs are kept.
    pub keep_completed: Keep,
    /// How long its cancelled jobs are kept.
    pub keep_cancelled: Keep,
    /// How long its discarded jobs are kept.
    pub keep_discarded: Keep,
}

/// Changes of a queue's settings, for [`Queue::set`](crate::Queue::set). A setting that is not named stays as it is.
///
/// It is the document that `set_queue` takes in SQL, which checks the values.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "changes do nothing until they are sent"]
pub struct QueueChanges(Map<String, Value>);

impl QueueChanges {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits how many of the queue's jobs run at once over all runners. `None`: only the runners' own limits apply. At
    /// least 1; to run none, pause the queue.
    ///
    /// Fetches from a limited queue wait for each other, so a limit is for queues that run few jobs at once. Jobs that
    /// run already when a limit is set finish. A limit counts the jobs whose state is `running`: the place of a
    /// cancelled job is free at once, even while its worker cleans up.
    pub fn limit(self, limit: Option<u32>) -> Self {
        self.with("limit", limit)
    }

    /// Limits how many jobs of each of the queue's groups run at once over all runners. `None`: only the jobs' own limits
    /// apply. At least 1. The lower of this and a job's own limit counts. Jobs that run already when a limit is set
    /// finish.
    pub fn group_limit(self, limit: Option<u32>) -> Self {
        self.with("group_limit", limit)
    }

    /// Limits how many available jobs the queue may have. An insert that would exceed the limit is
    /// [`Error::QueueFull`](crate::Error::QueueFull). `None`, the default: any number. At least 1.
    ///
    /// - Available jobs are those that are due and that no worker has started. Scheduled, retryable and pending jobs do not
    ///   count. A duplicate is answered as ever, since it adds no job.
    /// - What makes an accepted job available again is never refused: its time, a retry, a release, a rescue. Neither are
    ///   the slots of periodic jobs. The queue can exceed its limit by these, and jobs that wait already stay.
    /// - Two transactions that are open at once do not see each other's jobs, so the queue can also exceed its limit by what
    ///   they insert.
    ///
    /// Without such a limit in any queue of the schema, inserts cost nothing more. With one, each statement that inserts
    /// jobs counts the available jobs of the queues that have a limit, no further than the limit.
    /// That takes about 2 ms where 10,000 wait.
    ///
    /// The first limit, and removing the last one, change the table of jobs: the call waits up to 7 s for open transactions
    /// that write jobs, and in a transaction of the caller's, other sessions cannot insert jobs until it ends.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database) that is [retryable](crate::Error::is_retryable) where such transactions stay open for longer.
    pub fn max_waiting(self, limit: Option<u32>) -> Self {
        self.with("max_waiting", limit)
    }

    /// Sets whether the queue is shared fairly. Then its groups, and the jobs without a group as one more, take turns
    /// within a priority, so that the backlog of one group does not keep the others waiting. Default: groups take turns
    /// among themselves, and jobs without a group come by their time.
    pub fn fair(self, is_fair: bool) -> Self {
        self.with("fair", is_fair)
    }

    /// Sets how many of the queue's jobs start in a time, over all runners. `None`: any number. Jobs over the rate stay
    /// available.
    ///
    /// Each start counts, also that of a retry and of a job that is given back later. A new rate counts from its commit on.
    /// Jobs of a queue with a rate are not fetched ahead, and fetches from it wait for each other.
    pub fn rate(self, rate: Option<Rate>) -> Self {
        self.with("rate", rate)
    }

    /// Sets how many jobs of each of the queue's groups start in a time, over all runners. `None`: any number. Jobs without
    /// a group are not counted. Where the queue has a rate as well, both count.
    pub fn group_rate(self, rate: Option<Rate>) -> Self {
        self.with("group_rate", rate)
    }

    /// Sets how long completed jobs are kept. Zero deletes them as they complete. Runners apply a retention after their next
    /// heartbeat.
    pub fn keep_completed(self, keep: Keep) -> Self {
        self.with("keep_completed", keep)
    }

    /// Sets how long cancelled jobs are kept.
    pub fn keep_cancelled(self, keep: Keep) -> Self {
        self.with("keep_cancelled", keep)
    }

    /// Sets how long discarded jobs are kept.
    pub fn keep_discarded(self, keep: Keep) -> Self {
        self.with("keep_discarded", keep)
    }

    /// Whether no setting is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_document(self) -> Map<String, Value> {
        self.0
    }

    fn with(mut self, setting: &str, value: impl Serialize) -> Self {
        self.0.insert(setting.to_owned(), json!(value));
        self
    }
}
