//! Periodic jobs: defining one.

use serde_json::{Value, json};
use sqlx::PgConnection;

use super::insert::{needs_clock, prepare_one};
use super::{Call, Client};
use crate::error::{Error, Result};
use crate::schedule::Schedule;
use crate::store::{Definition, OfKind};
use crate::unique::UniquePolicy;
use crate::words::ident::PeriodicName;
use crate::words::opts::{Expiry, Start};
use crate::words::periodic::PeriodicJob;

impl Client {
    /// Defines a periodic job, or changes the one of its name. With another schedule it begins anew;
    /// with the same one it keeps its place. A paused one stays paused. Runners notice it within seconds.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use serde_json::json;
    /// # use uniqueue::{Client, NewJob, PeriodicJob};
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// let sweep = NewJob::new("cache.sweep", &json!({}));
    /// client.define_periodic(PeriodicJob::every("sweep", Duration::from_secs(900), sweep)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// The crate `uniqueue-admin` lists, changes, pauses and runs periodic jobs.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`]; [`Error::InvalidSchedule`] and [`Error::UnknownTimeZone`];
    /// [`Error::InvalidOption`] when the job has a start time, an `expires_at`, an id, or a unique policy with a
    /// window; as for [`Insert`](crate::Insert) when the job is invalid; [`Error::Database`].
    pub fn define_periodic(&self, periodic: PeriodicJob) -> Call<'_, ()> {
        let subject = json!({ "periodic": periodic.name, "schedule": periodic.schedule });
        Call::change(self, "define_periodic", subject, move |client, connection| {
            Box::pin(async { define(client, connection, periodic, false).await.map(drop) })
        })
    }

    /// Defines a periodic job of the code of a runner. Answers with the digest of the definition.
    pub(crate) fn define_periodic_in_code(&self, periodic: PeriodicJob) -> Call<'_, String> {
        Call::change(self, "define_periodic", Value::Null, move |client, connection| {
            Box::pin(define(client, connection, periodic, true))
        })
    }
}

async fn define(
    client: &Client,
    connection: &mut PgConnection,
    periodic: PeriodicJob,
    is_in_code: bool,
) -> Result<String> {
    let PeriodicJob { name, schedule, time_zone, catch_up, job } = periodic;
    let name = PeriodicName::new(name)?;
    Schedule::read(&schedule, &time_zone)?;
    let refuse = |problem| Err(Error::InvalidOption { option: "periodic job", problem, given: name.to_string() });
    let options = job.options.clone().or(client.defaults());
    let is_delayed = options.unique.as_ref().is_some_and(|policy| policy.delay().is_some());
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
        Some(claim) => Some(UniquePolicy::from(claim.clone()).to_ojs()?),
        None if !is_any || options.unique.is_some() => Some(Value::Null),
        None => None,
    };
    let definition = Definition { name, schedule, time_zone, catch_up, is_in_code, unique_policy, row, of_kind };
    client.store(connection).define_periodic(&definition).await?;
    Ok(definition.digest())
}
