//! Periodic jobs: a schedule inserts a job at each of its slots.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::ident::{JobId, Kind, PeriodicName, QueueName};
use crate::job::NewJob;
use crate::period;
use crate::schedule::CatchUp;

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
/// a start time, because the schedule decides about time.
///
/// # Time zones
///
/// A cron expression is read in its time zone, by the rules of Vixie cron. If the clock skips a fixed
/// time of the day, the job runs right after the gap. If the clock repeats it, the job runs once, the
/// first time. `*`, steps, ranges and lists in the hours, minutes or seconds follow the clock: they run
/// in both of two repeated hours, and not in a skipped hour. Intervals do not depend on time zones.
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
    /// may contain `*`, lists, ranges, steps, names (`MON`, `JAN`), `L`, `W` and `#`, or be one of
    /// `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly`. A sixth field in front is the second. A
    /// year cannot be given. If both kinds of day are given, a day matches if one of them does.
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

    /// What to do with slots that passed while no runner was alive. Default: [`CatchUp::Latest`].
    pub const fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }
}

/// The source of a periodic job's definition.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum PeriodicSource {
    /// A runner, which defines it again at its next start.
    Code,
    /// A client, or SQL.
    Database,
}

impl PeriodicSource {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Database => "database",
        }
    }

    /// Reads the value. A CHECK constraint keeps other values out of the table.
    pub(crate) fn from_stored(word: &str) -> Self {
        if word == "code" { Self::Code } else { Self::Database }
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
    /// A cron expression, or an interval as an ISO 8601 duration.
    pub schedule: String,
    /// The zone in which a cron expression is read.
    pub time_zone: String,
    /// The unique policy of its jobs, as `insert_job` takes it. `None`: each slot has its own key.
    pub unique_policy: Option<Value>,
    /// What to do with slots that passed while no runner was alive.
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
