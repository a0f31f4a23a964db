//! Periodic jobs: what is inserted at each slot of a schedule.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::ident::{JobId, Kind, PeriodicName, QueueName};
use crate::job::NewJob;
use crate::period;
use crate::schedule::CatchUp;

/// A job that is inserted again and again, by a cron expression or at an interval.
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
/// Defined in code ([`Runner::periodic`](crate::Runner::periodic)) or in the database
/// ([`Client::periodic`](crate::Client::periodic), or a row in the table `periodic`), it is kept there
/// and survives restarts. Any runner of the schema inserts its jobs, whichever queues that works.
///
/// # Slots
///
/// A slot is a time at which the schedule is due. Each is run once, however many runners there are:
/// its job is inserted in the transaction that moves the periodic job on to its next slot, with an id
/// and a unique key made of name and slot. The job's `scheduled_at` is the slot, and its meta has a
/// member `periodic`: `{"name": "daily-digest", "slot": "2026-03-30T07:00:00Z"}`. The database's clock
/// decides what is due. What becomes of slots that no runner was there for, [`CatchUp`] says.
///
/// # Jobs that are unique themselves
///
/// A job with a unique key or policy of its own keeps it, and a slot that meets a job which claims the
/// key is skipped: with the default policy a run does not overlap the one before. The key takes the
/// place of the slot's; that the slot runs once, its id and the row's lock still see to. A policy's
/// window, and a start time, are errors: the schedule says when.
///
/// # Time zones
///
/// A cron expression is read in its time zone, by the habits of Vixie cron: a job at a fixed time of
/// the day that the clock skips runs right after the gap, one that the clock repeats runs once, the
/// first time; `*`, steps, ranges and lists in the hours, minutes or seconds go by the clock's hands
/// (they run in both of two repeated hours, and not in a skipped one). Intervals know no zones.
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
    /// A job by a cron expression: minute, hour, day of the month, month, day of the week; `*`, lists,
    /// ranges, steps, names (`MON`, `JAN`), `L`, `W`, `#`, and `@hourly`, `@daily`, `@weekly`,
    /// `@monthly`, `@yearly`. A sixth field in front is the second; a year cannot be given. Days match
    /// when the day of the month or the day of the week does, where both are given.
    ///
    /// The name is 1 to 128 bytes without control characters, and one periodic job's only. A bad name
    /// or expression is reported when the job is defined, not here.
    pub fn cron(name: impl Into<String>, expression: impl Into<String>, job: impl Into<NewJob>) -> Self {
        Self {
            name: name.into(),
            schedule: expression.into(),
            time_zone: "UTC".to_owned(),
            catch_up: CatchUp::default(),
            job: job.into(),
        }
    }

    /// A job at an interval of whole seconds, at most 100 years. Its slots are multiples of the
    /// interval counted from Monday 0001-01-01 00:00 UTC, so that a quarter of an hour is due at :00,
    /// :15, :30 and :45, and a week on Mondays, whenever and however often it is defined.
    pub fn every(name: impl Into<String>, interval: Duration, job: impl Into<NewJob>) -> Self {
        Self::cron(name, period::write(interval), job)
    }

    /// The zone in which the cron expression is read, by its IANA name. Default: `UTC`.
    pub fn time_zone(mut self, time_zone: impl Into<String>) -> Self {
        self.time_zone = time_zone.into();
        self
    }

    /// What becomes of slots that no runner was there for. Default: [`CatchUp::Latest`].
    pub const fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }
}

/// Who defined a periodic job.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum PeriodicSource {
    /// A runner, which does so again at its next start.
    Code,
    /// A client, or somebody by hand.
    Database,
}

impl PeriodicSource {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Database => "database",
        }
    }

    /// Reads the word; a CHECK constraint keeps others out of the table.
    pub(crate) fn from_stored(word: &str) -> Self {
        if word == "code" { Self::Code } else { Self::Database }
    }
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
    /// How often each of its jobs may be started.
    pub max_attempts: u16,
    /// A cron expression, or an interval as an ISO 8601 duration.
    pub schedule: String,
    /// The zone in which a cron expression is read.
    pub time_zone: String,
    /// The unique policy of its jobs, as `insert_job` takes it. `None`: each slot has its own key.
    pub unique_policy: Option<Value>,
    /// What becomes of slots that no runner was there for.
    pub catch_up: CatchUp,
    /// Who defined it.
    pub source: PeriodicSource,
    /// Its first slot comes after this.
    #[serde(with = "time::serde::rfc3339")]
    pub starts_at: OffsetDateTime,
    /// Its next slot. `None`: no runner has looked at it yet.
    #[serde(with = "time::serde::rfc3339::option")]
    pub next_at: Option<OffsetDateTime>,
    /// The last slot whose turn came.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_at: Option<OffsetDateTime>,
    /// The job that was inserted last.
    pub last_job: Option<JobId>,
    /// Since when no slot is run.
    #[serde(with = "time::serde::rfc3339::option")]
    pub paused_at: Option<OffsetDateTime>,
    /// When it was defined.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// Why its slots cannot be run.
    pub problem: Option<String>,
}
