//! Periodic jobs: defining, listing, pausing, running.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::PgConnection;

use super::insert::{needs_clock, prepare_one};
use super::{Call, Client};
use crate::error::{Error, Result};
use crate::period;
use crate::schedule::Schedule;
use crate::store::{self, Definition, OfKind, PeriodicVerb};
use crate::words::ident::{Kind, PeriodicName, QueueName};
use crate::words::opts::{Expiry, Start};
use crate::words::periodic::{PeriodicChange, PeriodicJob, PeriodicRow, PeriodicRun, PeriodicSource};

/// The periodic jobs of a schema. Made by [`Client::periodic`].
///
/// Runners notice a change within seconds. Every change can be made in SQL as well, to the rows of the table
/// `periodic`.
#[derive(Clone, Copy, Debug)]
pub struct Periodic<'a> {
    client: &'a Client,
}

impl Client {
    /// The periodic jobs.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use serde_json::json;
    /// # use uniqueue::{Client, NewJob, PeriodicJob};
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// let sweep = NewJob::new("cache.sweep", &json!({}));
    /// client.periodic().define(PeriodicJob::every("sweep", Duration::from_secs(900), sweep)).await?;
    /// for periodic in client.periodic().list().await? {
    ///     println!("{}: {} next at {:?}", periodic.name, periodic.schedule, periodic.next_at);
    /// }
    /// client.periodic().pause("sweep").await?;
    /// # Ok(()) }
    /// ```
    pub const fn periodic(&self) -> Periodic<'_> {
        Periodic { client: self }
    }
}

impl<'a> Periodic<'a> {
    /// Defines a periodic job, or changes the one of its name. With another schedule it begins anew;
    /// with the same one it keeps its place. A paused one stays paused.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`]; [`Error::InvalidSchedule`] and [`Error::UnknownTimeZone`];
    /// [`Error::InvalidOption`] when the job has a start time, an `expires_at`, an id, or a unique policy with a
    /// window; as for [`Insert`](crate::Insert) when the job is invalid; [`Error::Database`].
    pub fn define(&self, periodic: PeriodicJob) -> Call<'a, ()> {
        let subject = json!({ "periodic": periodic.name, "schedule": periodic.schedule });
        Call::change(self.client, "define_periodic", subject, move |client, connection| {
            Box::pin(async { define(client, connection, periodic, PeriodicSource::Database).await.map(drop) })
        })
    }

    /// Defines a periodic job of the code of a runner. Answers with the digest of the definition.
    pub(crate) fn define_in_code(&self, periodic: PeriodicJob) -> Call<'a, String> {
        Call::change(self.client, "define_periodic", Value::Null, move |client, connection| {
            Box::pin(define(client, connection, periodic, PeriodicSource::Code))
        })
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

    /// Lists all periodic jobs, by name.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn list(&self) -> Call<'a, Vec<PeriodicRow>> {
        Call::new(self.client, |client, connection| {
            Box::pin(store::list_periodic(connection, client.statements(), None))
        })
    }

    /// Finds a periodic job.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn find(&self, name: &str) -> Call<'a, Option<PeriodicRow>> {
        let name = name.to_owned();
        Call::new(self.client, move |client, connection| {
            Box::pin(async move { Ok(store::list_periodic(connection, client.statements(), Some(&name)).await?.pop()) })
        })
    }

    /// Pauses it: no slot is run until it is resumed. Returns whether it exists.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn pause(&self, name: &str) -> Call<'a, bool> {
        self.change(PeriodicVerb::Pause, name)
    }

    /// Runs its slots again, from now on. Slots that passed while it was paused are not caught up, whatever its
    /// `catch_up`. Returns whether it exists.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn resume(&self, name: &str) -> Call<'a, bool> {
        self.change(PeriodicVerb::Resume, name)
    }

    /// Removes it. Its jobs stay. A definition in code comes back with the next start of a runner that has it.
    /// Returns whether it existed.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn remove(&self, name: &str) -> Call<'a, bool> {
        self.change(PeriodicVerb::Remove, name)
    }

    /// Inserts one of its jobs at once, outside of the schedule, paused or not. Returns the job, or as a duplicate the holder
    /// of the unique key if the job has a key that another job claims. `None`: there is no periodic job of that name.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn run_now(&self, name: &str) -> Call<'a, Option<PeriodicRun>> {
        let name = name.to_owned();
        let subject = json!({ "periodic": name });
        Call::change(self.client, "run_periodic", subject, move |client, connection| {
            Box::pin(async move { store::run_periodic_now(connection, client.statements(), &name).await })
        })
    }

    fn change(&self, verb: PeriodicVerb, name: &str) -> Call<'a, bool> {
        let name = name.to_owned();
        let subject = json!({ "periodic": name });
        let done = match verb {
            PeriodicVerb::Pause => "pause_periodic",
            PeriodicVerb::Resume => "resume_periodic",
            PeriodicVerb::Remove => "remove_periodic",
        };
        Call::change(self.client, done, subject, move |client, connection| {
            Box::pin(async move { store::change_periodic(connection, client.statements(), verb, &name).await })
        })
    }
}

async fn define(
    client: &Client,
    connection: &mut PgConnection,
    periodic: PeriodicJob,
    source: PeriodicSource,
) -> Result<String> {
    let PeriodicJob { name, schedule, time_zone, catch_up, job } = periodic;
    let name = PeriodicName::new(name)?;
    Schedule::read(&schedule, &time_zone)?;
    let refuse = |problem| Err(Error::InvalidOption { option: "periodic job", problem, given: name.to_string() });
    let options = job.options.clone().or(client.defaults());
    let is_delayed = options.unique.as_ref().is_some_and(|unique| unique.delay().is_some());
    if is_delayed || options.start.is_some_and(|start| start != Start::Now) {
        return refuse("the schedule says when it runs, so it must not have a start of its own");
    }
    if options.id.is_some() {
        return refuse("each of its jobs has an id of its own, so it must not have one");
    }
    if let Some(Expiry::At(_)) = options.expiry {
        return refuse(
            "each of its jobs has a time of its own, so it must not have an expires_at; give it an expires_in",
        );
    }
    if needs_clock(&options, client.defaults()) {
        return refuse("the schedule says how often it runs, so its unique policy must not have a window");
    }
    let is_any = !job.is_typed();
    let of_kind = OfKind {
        is_any,
        queue: is_any && options.queue.is_none(),
        priority: is_any && options.priority.is_none(),
        max_attempts: is_any && options.max_attempts.is_none(),
    };
    let (row, _) = prepare_one(client, &mut *connection, job).await?;
    // The key is in it, since the job is the same at every slot.
    let unique_policy = match &row.claim {
        Some(claim) => Some(claim.document()?),
        None if !is_any || options.unique.is_some() => Some(Value::Null),
        None => None,
    };
    let definition = Definition { name, schedule, time_zone, catch_up, source, unique_policy, row, of_kind };
    store::define_periodic(connection, client.statements(), &definition).await?;
    Ok(definition.digest())
}

fn check_expires_in(length: Option<Duration>) -> Result<()> {
    match length.filter(|length| *length > period::LONGEST) {
        None => Ok(()),
        Some(length) => Err(Error::InvalidOption {
            option: "expires_in",
            problem: "must be at most 100 years",
            given: format!("{length:?}"),
        }),
    }
}

async fn set(client: &Client, connection: &mut PgConnection, name: String, change: PeriodicChange) -> Result<bool> {
    let stored = store::list_periodic(&mut *connection, client.statements(), Some(&name)).await?.pop();
    let Some(stored) = stored else { return Ok(false) };
    let PeriodicChange { kind, queue, schedule, time_zone, expires_in, .. } = &change;
    Schedule::read(schedule.as_deref().unwrap_or(&stored.schedule), time_zone.as_deref().unwrap_or(&stored.time_zone))?;
    kind.as_deref().map(Kind::new).transpose()?;
    queue.as_deref().map(QueueName::new).transpose()?;
    check_expires_in(*expires_in)?;
    store::set_periodic(connection, client.statements(), &name, &change).await?;
    Ok(true)
}
