//! Periodic jobs: listing, changing, pausing, running.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uniqueue::{
    Call, CatchUp, Client, Error, JobId, Kind, NewJob, PeriodicJob, PeriodicName, QueueName, Result, period,
    stored_time,
};

use crate::Admin;
use crate::statement::{arguments, change_to, collect, rows};

/// The periodic jobs of a schema. Made by [`Admin::periodic`].
///
/// Runners notice a change within seconds. Every change can be made in SQL as well, to the rows of the table
/// `periodic`.
#[derive(Clone, Copy, Debug)]
pub struct Periodic<'a> {
    client: &'a Client,
}

impl<'a> Admin<'a> {
    /// The periodic jobs.
    ///
    /// ```no_run
    /// # use uniqueue_admin::Admin;
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// let admin = Admin::new(&client);
    /// for periodic in admin.periodic().list().await? {
    ///     println!("{}: {} next at {:?}", periodic.name, periodic.schedule, periodic.next_at);
    /// }
    /// admin.periodic().pause("sweep").await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn periodic(self) -> Periodic<'a> {
        Periodic { client: self.client }
    }
}

impl<'a> Periodic<'a> {
    /// Lists all periodic jobs, by name.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn list(&self) -> Call<'a, Vec<PeriodicRow>> {
        collect(self.client, LIST, arguments(json!({})), |rows| rows)
    }

    /// Finds a periodic job.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn find(&self, name: &str) -> Call<'a, Option<PeriodicRow>> {
        collect(self.client, LIST, arguments(json!({ "name": name })), |mut rows| rows.pop())
    }

    /// Changes what a [`PeriodicChange`] names of a periodic job. Another schedule or time zone begins anew. Returns whether
    /// it exists.
    ///
    /// A definition in code overwrites the change at the next start of a runner that has it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSchedule`] and [`Error::UnknownTimeZone`], of the new schedule in its zone;
    /// [`Error::InvalidName`] of a kind or a queue; [`Error::Database`].
    pub fn set(&self, name: &str, change: PeriodicChange) -> Call<'a, bool> {
        let name = name.to_owned();
        let subject = json!({ "periodic": name, "change": change });
        Call::change(self.client, "set_periodic", subject, move |client, connection| {
            Box::pin(set(client, connection, name, change))
        })
    }

    /// Pauses it: no slot is run until it is resumed. Returns whether it exists.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn pause(&self, name: &str) -> Call<'a, bool> {
        self.change("pause_periodic", name, PAUSE)
    }

    /// Runs its slots again, from now on. Slots that passed while it was paused are not caught up, whatever its
    /// `catch_up`. Returns whether it exists.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn resume(&self, name: &str) -> Call<'a, bool> {
        self.change("resume_periodic", name, include_str!("sql/resume_periodic.sql"))
    }

    /// Removes it. Its jobs stay. A definition in code comes back with the next start of a runner that has it.
    /// Returns whether it existed.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn remove(&self, name: &str) -> Call<'a, bool> {
        self.change("remove_periodic", name, REMOVE)
    }

    /// Inserts one of its jobs at once, outside of the schedule, paused or not. Returns the job, or as a duplicate the holder
    /// of the unique key if the job has a key that another job claims. `None`: there is no periodic job of that name.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn run_now(&self, name: &str) -> Call<'a, Option<PeriodicRun>> {
        let (subject, asked) = (json!({ "periodic": name }), json!({ "name": name }));
        change_to(self.client, "run_periodic", subject, RUN_NOW, asked, |mut rows| rows.pop())
    }

    fn change(&self, verb: &'static str, name: &str, statement: &'static str) -> Call<'a, bool> {
        let (subject, asked) = (json!({ "periodic": name }), json!({ "name": name }));
        change_to(self.client, verb, subject, statement, asked, |rows: Vec<Value>| !rows.is_empty())
    }
}

const LIST: &str = include_str!("sql/periodic.sql");

/// Runs no slot of a periodic job until it is resumed.
const PAUSE: &str = "\
UPDATE /* schema */periodic AS p
SET paused_at = coalesce(p.paused_at, clock_timestamp())
WHERE p.name = $1::jsonb ->> 'name'
RETURNING p.name";

const REMOVE: &str = "DELETE FROM /* schema */periodic AS p WHERE p.name = $1::jsonb ->> 'name' RETURNING p.name";

const RUN_NOW: &str = "SELECT r.job, r.duplicate FROM /* schema */_run_periodic_now($1::jsonb ->> 'name') AS r";

async fn set(client: &Client, connection: &mut PgConnection, name: String, mut change: PeriodicChange) -> Result<bool> {
    let named = json!({ "name": name });
    let Some(stored) = rows::<PeriodicRow>(client, &mut *connection, LIST, &named).await?.pop() else {
        return Ok(false);
    };
    let given = |member: &str| change.members.get(member).and_then(Value::as_str);
    let (schedule, time_zone) = (given("schedule"), given("time_zone"));
    next_after(schedule.unwrap_or(&stored.schedule), time_zone.unwrap_or(&stored.time_zone), stored.created_at)?;
    given("kind").map(Kind::new).transpose()?;
    given("queue").map(QueueName::new).transpose()?;
    if let Some(length) = change.expires_in.filter(|length| *length > period::LONGEST) {
        let (option, problem) = ("expires_in", "must be at most 100 years");
        return Err(Error::InvalidOption { option, problem, given: format!("{length:?}") });
    }
    change.members.insert("name".to_owned(), name.into());
    rows::<Value>(client, connection, include_str!("sql/set_periodic.sql"), &change).await?;
    Ok(true)
}

/// A change of a periodic job: what is not set stays as it is. See [`Periodic::set`].
///
/// ```no_run
/// # use uniqueue_admin::{Admin, PeriodicChange};
/// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
/// let later = PeriodicChange::new().schedule("0 10 * * MON-FRI").time_zone("Europe/Berlin");
/// assert!(Admin::new(&client).periodic().set("daily-digest", later).await?);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, Serialize)]
#[must_use = "a change does nothing until it is given to Periodic::set"]
pub struct PeriodicChange {
    /// Args keep every digit, and an `expires_in` is checked before it is a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none", with = "uniqueue::period::seconds::option")]
    expires_in: Option<Duration>,
    /// The other members, by name.
    #[serde(flatten)]
    members: Map<String, Value>,
}

impl PeriodicChange {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }

    /// A cron expression, or an interval as an ISO 8601 duration.
    pub fn schedule(self, schedule: impl Into<String>) -> Self {
        self.with("schedule", schedule.into())
    }

    /// The zone in which a cron expression is read.
    pub fn time_zone(self, time_zone: impl Into<String>) -> Self {
        self.with("time_zone", time_zone.into())
    }

    /// The treatment of slots that passed while no runner was alive.
    pub fn catch_up(self, catch_up: CatchUp) -> Self {
        self.with("catch_up", json!(catch_up))
    }

    /// The kind of its jobs.
    pub fn kind(self, kind: impl Into<String>) -> Self {
        self.with("kind", kind.into())
    }

    /// The args of its jobs, as JSON text.
    pub fn args(mut self, args: Box<RawValue>) -> Self {
        self.args = Some(args);
        self
    }

    /// The queue of its jobs.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.with("queue", queue.into())
    }

    /// The priority of its jobs.
    pub fn priority(self, priority: i16) -> Self {
        self.with("priority", priority)
    }

    /// The time in which each of its jobs must start, at most 100 years. Zero: the jobs do not expire.
    pub const fn expires_in(mut self, length: Duration) -> Self {
        self.expires_in = Some(length);
        self
    }

    /// The number of attempts of each of its jobs.
    pub fn max_attempts(self, max_attempts: u16) -> Self {
        self.with("max_attempts", max_attempts)
    }

    fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.members.insert(member.to_owned(), value.into());
        self
    }
}

/// The source of a periodic job's definition.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum PeriodicSource {
    /// A runner, which defines it again at its next start.
    Code,
    /// A client, or SQL.
    Database,
}

/// The result of [`Periodic::run_now`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PeriodicRun {
    /// The inserted job, or for a duplicate the job that claims the key.
    pub job: JobId,
    /// Whether another job claims the key, so that nothing was inserted.
    pub duplicate: bool,
}

/// A periodic job as it is stored.
#[derive(Clone, Debug, Deserialize, Serialize)]
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
    #[serde(deserialize_with = "uniqueue::period::seconds::option::deserialize")]
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
    #[serde(with = "stored_time")]
    pub starts_at: OffsetDateTime,
    /// Its next slot. `None` if no runner has scheduled it yet.
    #[serde(with = "stored_time::option")]
    pub next_at: Option<OffsetDateTime>,
    /// The last slot that was due.
    #[serde(with = "stored_time::option")]
    pub last_at: Option<OffsetDateTime>,
    /// The job that was inserted last.
    pub last_job: Option<JobId>,
    /// When it was paused.
    #[serde(with = "stored_time::option")]
    pub paused_at: Option<OffsetDateTime>,
    /// When it was defined.
    #[serde(with = "stored_time")]
    pub created_at: OffsetDateTime,
    /// Why its slots cannot be run.
    pub problem: Option<String>,
}

impl PeriodicRow {
    /// Its first slot after a time. `None`: there is none within 50 years.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSchedule`] or [`Error::UnknownTimeZone`] where the stored schedule cannot be read.
    pub fn next_after(&self, at: OffsetDateTime) -> Result<Option<OffsetDateTime>> {
        next_after(&self.schedule, &self.time_zone, at)
    }
}

fn next_after(schedule: &str, time_zone: &str, at: OffsetDateTime) -> Result<Option<OffsetDateTime>> {
    PeriodicJob::cron("", schedule, NewJob::new("", &())).time_zone(time_zone).next_after(at)
}
