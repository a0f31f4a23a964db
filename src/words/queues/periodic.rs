//! Periodic jobs: a schedule inserts a job at each of its slots.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use uniqueue_policy::words;

use crate::error::Result;
use crate::period;
use crate::schedule::{CatchUp, Schedule};
use crate::words::ident::{JobId, Kind, PeriodicName, QueueName};
use crate::words::job::NewJob;

/// A job that is inserted repeatedly, by a cron expression or at an interval.
///
/// ```
/// use std::time::Duration;
/// use serde::{Deserialize, Serialize};
/// use uniqueue::{CatchUp, Job, PeriodicJob};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "digest.send", queue = "emails")]
/// struct SendDigest {
///     audience: String,
/// }
///
/// let digest = || SendDigest { audience: "all".into() };
/// let daily = PeriodicJob::cron("daily-digest", "0 9 * * MON-FRI", digest()).time_zone("Europe/Berlin");
/// let hourly = PeriodicJob::every("hourly-digest", Duration::from_secs(3600), digest()).catch_up(CatchUp::Skip);
/// # let _ = (daily, hourly);
/// ```
///
/// It is defined in code ([`Runner::periodic`](crate::Runner::periodic)) or in the database
/// ([`Client::periodic`](crate::Client::periodic), or a row in the table `periodic`). The definition is
/// stored in the database and survives restarts. Every runner of the schema inserts its jobs, also
/// for queues that the runner does not work.
///
/// # Slots
///
/// A slot is a time at which the schedule is due. Each slot runs once, with any number of runners. The
/// transaction that inserts its job also moves the periodic job to its next slot. The id and the unique
/// key of the job are made from name and slot. The job's `scheduled_at` is the slot, and its meta has a
/// member `periodic`: `{"name": "daily-digest", "slot": "2026-03-30T07:00:00Z"}`. The database's clock
/// decides which slots are due. [`CatchUp`] decides about slots that passed while no runner was alive.
///
/// # Jobs that are unique themselves
///
/// A job with a unique key or policy of its own keeps it, and the slot's key is not used. A slot is
/// skipped while another job claims the key, so with the default policy two runs never overlap. The id
/// and the row's lock still ensure that a slot runs once. A policy with a window is an error, and so is
/// a start time, because the schedule decides about time. A job may have an `expires_in`, counted from its slot, and no
/// `expires_at`.
///
/// # Time zones
///
/// A cron expression is read in its time zone. When the clock is put forward or back, it follows the rule of Vixie cron:
/// - An expression without a `*` in its hours, minutes and seconds names fixed times of the day, as one or as a list or a
///   range: `30 2 * * *`, `0 2,14 * * *`, `0 1-5 * * *`. If the clock skips such a time, the job runs right after the gap. If
///   the clock repeats it, the job runs once, the first time.
/// - An expression with `*` or `*/n` there follows the clock: `0 * * * *`, `*/15 2 * * *`. It runs in both of two repeated
///   hours, and not in a skipped hour.
///
/// The rule differs from the source of Vixie cron in three points. A `*` counts in any item of a list, and not only as the
/// first character of a field. A change of more than three hours is made up for like a shorter one. Several times of one
/// expression that one change skips run once.
///
/// Intervals do not depend on time zones.
#[derive(Clone, Debug)]
#[must_use = "a periodic job does nothing until it is defined"]
pub struct PeriodicJob {
    pub(crate) name: String,
    pub(crate) schedule: String,
    pub(crate) time_zone: String,
    pub(crate) catch_up: CatchUp,
    pub(crate) job: NewJob,
}

impl PeriodicJob {
    /// Schedules a job by a cron expression: minute, hour, day of the month, month, day of the week. It
    /// may be one of `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly` and `@yearly`. A sixth field in front is the
    /// second. A year cannot be given. If both kinds of day are given, a day matches if one of them does.
    ///
    /// | field | values, besides `*`, lists (`2,14`), ranges (`9-17`, `22-6`) and steps (`*/15`, `0/15`, `9-17/2`) |
    /// |---|---|
    /// | second, minute | 0 to 59 |
    /// | hour | 0 to 23 |
    /// | day of the month | 1 to 31; `L` is the last, `L-3` three days before it, `15W` the weekday nearest to the 15th, `LW` the last weekday |
    /// | month | 1 to 12, `JAN` to `DEC` |
    /// | day of the week | 0 to 7 (Sunday is both), `SUN` to `SAT`, also `FRI-MON`; `MON#2` is the second Monday of the month, `FRIL` the last Friday |
    ///
    /// The search for a slot covers 50 years. An expression that is not due in them, such as 30 February, is an error.
    ///
    /// The name is unique, and has 1 to 128 bytes without control characters. A bad name or expression
    /// is an error when the job is defined, not here.
    pub fn cron(name: impl Into<String>, expression: impl Into<String>, job: impl Into<NewJob>) -> Self {
        Self {
            name: name.into(),
            schedule: expression.into(),
            time_zone: "UTC".to_owned(),
            catch_up: CatchUp::default(),
            job: job.into(),
        }
    }

    /// Schedules a job at an interval of whole seconds, at most 100 years. Its slots are multiples of
    /// the interval counted from Monday 0001-01-01 00:00 UTC. A quarter of an hour is due at :00, :15,
    /// :30 and :45, and a week on Mondays, independent of when it was defined.
    pub fn every(name: impl Into<String>, interval: Duration, job: impl Into<NewJob>) -> Self {
        Self::cron(name, period::write(interval), job)
    }

    /// The zone in which the cron expression is read, by its IANA name. Default: `UTC`.
    pub fn time_zone(mut self, time_zone: impl Into<String>) -> Self {
        self.time_zone = time_zone.into();
        self
    }

    /// The treatment of slots that passed while no runner was alive. Default: [`CatchUp::Latest`].
    pub const fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }
}

/// A change of a periodic job: what is not set stays as it is. See [`Periodic::set`](crate::Periodic::set).
///
/// ```no_run
/// # use uniqueue::{Client, PeriodicChange};
/// # async fn run(client: Client) -> uniqueue::Result<()> {
/// let later = PeriodicChange::new().schedule("0 10 * * MON-FRI").time_zone("Europe/Berlin");
/// assert!(client.periodic().set("daily-digest", later).await?);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, Serialize)]
#[must_use = "a change does nothing until it is given to Periodic::set"]
pub struct PeriodicChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) schedule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) time_zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) args: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_attempts: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) catch_up: Option<CatchUp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_in: Option<Duration>,
}

impl PeriodicChange {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }

    /// A cron expression, or an interval as an ISO 8601 duration.
    pub fn schedule(mut self, schedule: impl Into<String>) -> Self {
        self.schedule = Some(schedule.into());
        self
    }

    /// The zone in which a cron expression is read.
    pub fn time_zone(mut self, time_zone: impl Into<String>) -> Self {
        self.time_zone = Some(time_zone.into());
        self
    }

    /// The treatment of slots that passed while no runner was alive.
    pub const fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = Some(catch_up);
        self
    }

    /// The kind of its jobs.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// The args of its jobs, as JSON text.
    pub fn args(mut self, args: Box<RawValue>) -> Self {
        self.args = Some(args);
        self
    }

    /// The queue of its jobs.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// The priority of its jobs.
    pub const fn priority(mut self, priority: i16) -> Self {
        self.priority = Some(priority);
        self
    }

    /// The time in which each of its jobs must start, at most 100 years. Zero: the jobs do not expire.
    pub const fn expires_in(mut self, length: Duration) -> Self {
        self.expires_in = Some(length);
        self
    }

    /// The number of attempts of each of its jobs.
    pub const fn max_attempts(mut self, max_attempts: u16) -> Self {
        self.max_attempts = Some(max_attempts);
        self
    }
}

words! {
    member "source";

    /// The source of a periodic job's definition.
    #[non_exhaustive]
    pub enum PeriodicSource {
        /// A runner, which defines it again at its next start.
        Code = "code",
        /// A client, or SQL.
        Database = "database",
    }
}

/// The result of [`Periodic::run_now`](crate::Periodic::run_now).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PeriodicRun {
    /// The inserted job, or for a duplicate the job that claims the key.
    pub job: JobId,
    /// Whether another job claims the key, so that nothing was inserted.
    pub duplicate: bool,
}

/// A periodic job as it is stored.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PeriodicRow {
    /// Its name.
    pub name: PeriodicName,
    /// The kind of its jobs.
    pub kind: Kind,
    /// The queue of its jobs.
    pub queue: QueueName,
    /// The payload of its jobs, as JSON text.
    pub args: Box<RawValue>,
    /// The meta of its jobs, to which name and slot are added.
    pub meta: Map<String, Value>,
    /// The priority of its jobs.
    pub priority: i16,
    /// The number of attempts of each of its jobs.
    pub max_attempts: u16,
    /// The time in which each of its jobs must start. `None`: the jobs do not expire.
    pub expires_in: Option<Duration>,
    /// A cron expression, or an interval as an ISO 8601 duration.
    pub schedule: String,
    /// The zone in which a cron expression is read.
    pub time_zone: String,
    /// The unique policy of its jobs, as `insert_job` takes it. `None`: each slot has its own key.
    pub unique_policy: Option<Value>,
    /// The treatment of slots that passed while no runner was alive.
    pub catch_up: CatchUp,
    /// Where it was defined.
    pub source: PeriodicSource,
    /// Its first slot comes after this.
    #[serde(with = "time::serde::rfc3339")]
    pub starts_at: OffsetDateTime,
    /// Its next slot. `None` if no runner has scheduled it yet.
    #[serde(with = "time::serde::rfc3339::option")]
    pub next_at: Option<OffsetDateTime>,
    /// The last slot that was due.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_at: Option<OffsetDateTime>,
    /// The job that was inserted last.
    pub last_job: Option<JobId>,
    /// When it was paused.
    #[serde(with = "time::serde::rfc3339::option")]
    pub paused_at: Option<OffsetDateTime>,
    /// When it was defined.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// Why its slots cannot be run.
    pub problem: Option<String>,
}

impl PeriodicRow {
    /// Its first slot after a time. `None`: there is none within 50 years.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSchedule`](crate::Error::InvalidSchedule) or [`Error::UnknownTimeZone`](crate::Error::UnknownTimeZone)
    /// where the stored schedule cannot be read.
    pub fn next_after(&self, at: OffsetDateTime) -> Result<Option<OffsetDateTime>> {
        Ok(Schedule::read(&self.schedule, &self.time_zone)?.next_after(at))
    }
}
