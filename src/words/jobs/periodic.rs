//! Periodic jobs: a schedule inserts a job at each of its slots.

use std::time::Duration;

use time::OffsetDateTime;

use crate::error::Result;
use crate::period;
use crate::schedule::{CatchUp, Schedule};
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
/// ([`Client::define_periodic`](crate::Client::define_periodic), or a row in the table `periodic`). The definition is
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

    /// Its first slot after a time. `None`: there is none within 50 years.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSchedule`](crate::Error::InvalidSchedule) and [`Error::UnknownTimeZone`](crate::Error::UnknownTimeZone).
    pub fn next_after(&self, at: OffsetDateTime) -> Result<Option<OffsetDateTime>> {
        Ok(Schedule::read(&self.schedule, &self.time_zone)?.next_after(at))
    }
}
