//! Queues: pausing, limiting and listing them.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::PgConnection;

use super::call::{ChangeCall, make};
use super::look_up::Source;
use super::{Call, Client, actor};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::ident::QueueName;
use crate::queue::{QueueInfo, QueueSettings};
use crate::rate::Rate;
use crate::retention::{Keep, Retention};
use crate::state::JobState;
use crate::store::{self, Pause, QueueVerb};

const NO_MAX: &str = "must be 1 to 2147483647; for no limit give None";
const NO_LIMIT: &str = "must be 1 to 2147483647; to run nothing, pause the queue";

/// The most bytes of the reason of a pause.
const MAX_REASON_BYTES: usize = 1_000;

/// A queue by its name. Made by [`Client::queue`]. Its settings may be changed before it has jobs.
#[derive(Clone, Copy, Debug)]
#[must_use = "a handle does nothing by itself"]
pub struct Queue<'a> {
    pub(super) client: &'a Client,
    pub(super) name: &'a str,
}

impl<'a> Queue<'a> {
    /// Pauses the queue everywhere: from now on no runner fetches from it. Running jobs finish. A queue that is
    /// paused already keeps the time of its first pause.
    pub fn pause(self) -> QueueChange<'a> {
        self.change(QueueVerb::Pause)
    }

    /// Resumes the queue where it is paused or held, and wakes idle runners at once. Holds of its groups stay.
    pub fn resume(self) -> QueueChange<'a> {
        self.change(QueueVerb::Resume)
    }

    /// Limits how many of the queue's jobs run at once over all runners. `None`: only the runners' own limits apply. At
    /// least 1; to run none, pause the queue.
    ///
    /// Fetches from a limited queue wait for each other, so a limit is for queues that run few jobs at once. Jobs that
    /// run already when a limit is set finish. A limit counts the jobs whose state is `running`: the place of a
    /// cancelled job is free at once, even while its worker cleans up.
    pub fn limit(self, limit: Option<u32>) -> QueueChange<'a> {
        match limit.map(|limit| i32::try_from(limit).map_err(|_| limit)) {
            None => self.change(QueueVerb::Limit(None)),
            Some(Ok(limit)) if limit > 0 => self.change(QueueVerb::Limit(Some(limit))),
            Some(Ok(_)) => self.refuse("limit", NO_LIMIT, 0),
            Some(Err(limit)) => self.refuse("limit", NO_LIMIT, limit),
        }
    }

    /// Limits how many jobs of each of the queue's groups run at once over all runners. `None`: only the jobs' own limits
    /// apply. At least 1. The lower of this and a job's own limit counts. Jobs that run already when a limit is set
    /// finish.
    pub fn group_limit(self, limit: Option<u32>) -> QueueChange<'a> {
        match limit.map(|limit| i32::try_from(limit).map_err(|_| limit)) {
            None => self.change(QueueVerb::LimitGroups(None)),
            Some(Ok(limit)) if limit > 0 => self.change(QueueVerb::LimitGroups(Some(limit))),
            Some(Ok(_)) => self.refuse("group_limit", NO_LIMIT, 0),
            Some(Err(limit)) => self.refuse("group_limit", NO_LIMIT, limit),
        }
    }

    /// Limits how many available jobs the queue may have. An insert that would exceed the limit is
    /// [`Error::QueueFull`]. `None`, the default: any number. At least 1.
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
    /// [`Error::Database`] that is [retryable](Error::is_retryable) where such transactions stay open for longer.
    pub fn max_waiting(self, limit: Option<u32>) -> QueueChange<'a> {
        match limit.map(|limit| i32::try_from(limit).map_err(|_| limit)) {
            None => self.change(QueueVerb::LimitWaiting(None)),
            Some(Ok(limit)) if limit > 0 => self.change(QueueVerb::LimitWaiting(Some(limit))),
            Some(Ok(_)) => self.refuse("max_waiting", NO_MAX, 0),
            Some(Err(limit)) => self.refuse("max_waiting", NO_MAX, limit),
        }
    }

    /// Sets whether the queue is shared fairly. Then its groups, and the jobs without a group as one more, take turns
    /// within a priority, so that the backlog of one group does not keep the others waiting. Default: groups take turns
    /// among themselves, and jobs without a group come by their time.
    pub fn fair(self, is_fair: bool) -> QueueChange<'a> {
        self.change(QueueVerb::Share(is_fair))
    }

    /// Sets how many of the queue's jobs start in a time, over all runners. `None`: any number. Jobs over the rate stay
    /// available.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use uniqueue::{Client, Rate};
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// client.queue("geocoding").rate(Some(Rate::per(10, Duration::from_secs(1)))).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Each start counts, also that of a retry and of a job that is given back later. A new rate counts from its commit on.
    /// Jobs of a queue with a rate are not fetched ahead, and fetches from it wait for each other.
    pub fn rate(self, rate: Option<Rate>) -> QueueChange<'a> {
        self.change_to(rate.map_or(Ok(()), Rate::check).map(|()| QueueVerb::Rate(rate)))
    }

    /// Sets how many jobs of each of the queue's groups start in a time, over all runners. `None`: any number. Jobs without
    /// a group are not counted. Where the queue has a rate as well, both count.
    pub fn group_rate(self, rate: Option<Rate>) -> QueueChange<'a> {
        self.change_to(rate.map_or(Ok(()), Rate::check).map(|()| QueueVerb::RateGroups(rate)))
    }

    /// Holds the queue: for so long no runner fetches from it. Running jobs finish. A hold that ends later stays.
    /// [`Queue::resume`] ends it. At most 1,000 years, which longer times become.
    pub fn hold(self, hold_for: Duration) -> QueueChange<'a> {
        self.change(QueueVerb::Hold(hold_for))
    }

    /// Holds a group of the queue: for so long no runner fetches a job of it. Running jobs finish. A hold that ends later
    /// stays. [`Queue::resume_group`] ends it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`], [`Error::InvalidOption`] for a key that no group can have, [`Error::Database`].
    pub fn hold_group(self, group: impl Into<String>, hold_for: Duration) -> Call<'a, ()> {
        let (name, group) = (QueueName::new(self.name), group.into());
        let subject = json!({ "queue": self.name, "group": group, "seconds": hold_for.as_secs_f64() });
        Call::change(self.client, "hold_group", subject, move |client, connection| {
            Box::pin(async move {
                Group::new(Some(group.clone()), None, false)?;
                store::hold_group(connection, client.statements(), &name?, &group, hold_for).await
            })
        })
    }

    /// Ends the hold of a group, and wakes idle runners at once. Returns whether it was held.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`], [`Error::Database`].
    pub fn resume_group(self, group: impl Into<String>) -> Call<'a, bool> {
        let (name, group) = (QueueName::new(self.name), group.into());
        let subject = json!({ "queue": self.name, "group": group });
        Call::change(self.client, "resume_group", subject, move |client, connection| {
            Box::pin(async move { store::resume_group(connection, client.statements(), &name?, &group).await })
        })
    }

    /// Sets how long the queue's final jobs are kept. `None`: the retention of the runners
    /// ([`Runner::retention`](crate::Runner::retention)), which is the default.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use uniqueue::{Client, Retention};
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// // Completed jobs of this queue are deleted as they complete.
    /// client.queue("pings").retention(Some(Retention::default().completed(Duration::ZERO))).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Runners apply it after their next heartbeat.
    pub fn retention(self, retention: Option<Retention>) -> QueueChange<'a> {
        let keep =
            |of: fn(Retention) -> Option<Duration>| Some(retention.map_or(Keep::AsRunnersSay, |all| of(all).into()));
        self.change(QueueVerb::Retain([
            keep(|all| all.completed),
            keep(|all| all.cancelled),
            keep(|all| all.discarded),
        ]))
    }

    /// Sets how long the queue's jobs in one final state are kept, and leaves the other states unchanged.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] for a state that is not final.
    pub fn keep(self, state: JobState, keep: Keep) -> QueueChange<'a> {
        let place = match state {
            JobState::Completed => 0,
            JobState::Cancelled => 1,
            JobState::Discarded => 2,
            _ => {
                let problem = "only completed, cancelled and discarded jobs are kept for a time";
                return self.refuse("retention", problem, state);
            }
        };
        let mut all = [None; 3];
        all[place] = Some(keep);
        self.change(QueueVerb::Retain(all))
    }

    /// Returns the queue's settings.
    pub fn settings(self) -> QueueChange<'a> {
        self.change(QueueVerb::Look)
    }

    /// Deletes the queue's settings, for a queue whose name was mistyped. Its jobs stay. It is not paused or held, and has no
    /// limit and no rate any more, like a queue without settings. Its
    /// totals of its history begin anew. Returns whether it had settings.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`], [`Error::Database`].
    pub fn remove(self) -> Call<'a, bool> {
        let name = QueueName::new(self.name);
        Call::change(self.client, "remove_queue", json!({ "queue": self.name }), move |client, connection| {
            Box::pin(async move { store::remove_queue(connection, client.statements(), &name?).await })
        })
    }

    fn change(self, verb: QueueVerb) -> QueueChange<'a> {
        self.change_to(Ok(verb))
    }

    fn refuse(self, option: &'static str, problem: &'static str, given: impl ToString) -> QueueChange<'a> {
        self.change_to(Err(Error::InvalidOption { option, problem, given: given.to_string() }))
    }

    fn change_to(self, verb: Result<QueueVerb>) -> QueueChange<'a> {
        QueueChange { queue: self, connection: None, actor: None, reason: None, verb }
    }
}

/// A change to a queue's settings, or a read of them, to be awaited. Made by [`Queue`]. It returns the settings
/// after the change.
///
/// # Errors
///
/// [`Error::InvalidName`] for an invalid queue name, [`Error::InvalidOption`] for an invalid limit or rate or a
/// state that is not final, [`Error::Database`].
#[derive(Debug)]
#[must_use = "a change does nothing until it is awaited"]
pub struct QueueChange<'a> {
    queue: Queue<'a>,
    connection: Option<&'a mut PgConnection>,
    actor: Option<String>,
    reason: Option<String>,
    verb: Result<QueueVerb>,
}

impl<'a> QueueChange<'a> {
    /// Makes the change in the caller's own transaction. Fetches from a limited queue wait up to 200
    /// ms for a transaction that has changed it and is still open, so commit soon.
    pub fn tx(mut self, connection: &'a mut PgConnection) -> Self {
        self.connection = Some(connection);
        self
    }

    /// Stores why the queue is paused, for [`Client::why`] and for people who look at the queue. At most 1,000 bytes. A queue
    /// that is paused already takes the new reason. Default: none. Other changes than [`Queue::pause`] ignore it.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Logs the change with this name, in the same transaction: see the log of changes (`uniqueue_admin`). A pause also stores the name with
    /// the queue. At most 200 bytes. Default: the change is not logged.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }
}

impl<'a> IntoFuture for QueueChange<'a> {
    type Output = Result<QueueSettings>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { queue: Queue { client, name }, connection, actor, reason, verb } = self;
            let (name, verb) = (QueueName::new(name)?, verb?);
            check_reason(reason.as_deref())?;
            let pause = Pause { reason, actor: actor.clone() };
            let entry = match verb {
                QueueVerb::Look => None,
                verb => {
                    let subject = subject(&name, verb, pause.reason.as_deref());
                    actor.map(|actor| actor::entry(actor, verb.as_str(), subject)).transpose()?
                }
            };
            let change: ChangeCall<QueueSettings> = Box::new(move |client, connection| {
                Box::pin(async move { store::change_queue(connection, client.statements(), verb, &name, &pause).await })
            });
            make(client, Source { connection, timeout: None }, entry, change).await
        })
    }
}

fn check_reason(reason: Option<&str>) -> Result<()> {
    let problem = match reason {
        Some(reason) if reason.len() > MAX_REASON_BYTES => "must not be longer than 1,000 bytes",
        Some(reason) if reason.contains('\0') => "must not contain NUL",
        _ => return Ok(()),
    };
    Err(Error::InvalidOption { option: "reason", problem, given: format!("{:?}", reason.unwrap_or_default()) })
}

/// The queue and its new value, for the log of changes.
fn subject(name: &QueueName, verb: QueueVerb, reason: Option<&str>) -> Value {
    match verb {
        QueueVerb::Pause if reason.is_some() => json!({ "queue": name, "reason": reason }),
        QueueVerb::Look | QueueVerb::Pause | QueueVerb::Resume => json!({ "queue": name }),
        QueueVerb::Limit(limit) => json!({ "queue": name, "limit": limit }),
        QueueVerb::LimitGroups(limit) => json!({ "queue": name, "group_limit": limit }),
        QueueVerb::LimitWaiting(limit) => json!({ "queue": name, "max_waiting": limit }),
        QueueVerb::Share(is_fair) => json!({ "queue": name, "fair": is_fair }),
        QueueVerb::Rate(rate) => json!({ "queue": name, "rate": rate }),
        QueueVerb::RateGroups(rate) => json!({ "queue": name, "group_rate": rate }),
        QueueVerb::Hold(hold_for) => json!({ "queue": name, "seconds": hold_for.as_secs_f64() }),
        QueueVerb::Retain([completed, cancelled, discarded]) => {
            json!({ "queue": name, "completed": completed, "cancelled": cancelled, "discarded": discarded })
        }
    }
}

/// A list of the queues, to be awaited. Made by [`Client::queues`].
pub type Queues<'a> = Call<'a, Vec<QueueInfo>, QueuesQuery>;

/// How queues are listed.
#[derive(Debug)]
pub struct QueuesQuery {
    up_to: u32,
}

impl Queues<'_> {
    /// Counts the jobs of each queue and state no further than this. Default: 10,000.
    pub fn count_up_to(mut self, up_to: u32) -> Self {
        self.options.up_to = up_to;
        self
    }
}

impl Client {
    /// A queue by its name: to pause, resume or limit it, or to set its retention.
    ///
    /// ```no_run
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// client.queue("emails").pause().await?;
    /// client.queue("emails").resume().await?;
    /// // At most five calls to that service at once, whatever number of processes.
    /// client.queue("geocoding").limit(Some(5)).await?;
    /// # Ok(()) }
    /// ```
    pub fn queue<'a>(&'a self, name: &'a str) -> Queue<'a> {
        Queue { client: self, name }
    }

    /// Lists every queue that has settings, a live runner or jobs, by name, with its jobs by state.
    ///
    /// It is equally quick for a queue of ten million jobs: counts stop at a limit, and beyond it are estimated
    /// from 500 pages of the table ([`JobCount`](crate::JobCount)). Final and pending jobs are counted among the last 20,000 inserted, waiting ones
    /// among the first 20,000 to be due, discarded ones among the last 20,000. A queue that has only older final jobs
    /// is missing.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn queues(&self) -> Queues<'_> {
        Call::with(self, QueuesQuery { up_to: 10_000 }, |client, connection, QueuesQuery { up_to }| {
            let up_to = i32::try_from(up_to).unwrap_or(i32::MAX - 1).min(i32::MAX - 1);
            Box::pin(store::list_queues(connection, client.statements(), up_to))
        })
    }
}
