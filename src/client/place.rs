//! The client of a place, and the value of a job that decides its place.

use std::borrow::Cow;

use sqlx::PgConnection;
use time::OffsetDateTime;

use super::Client;
use super::insert::{Resolver, needs_clock, value_of};
use crate::error::{Error, Result};
use crate::words::ident::{JobId, PlaceName};
use crate::words::job::NewJob;
use crate::words::place_by::PlaceBy;

impl Client {
    /// The place that the client is for, if it comes from [`Places`](crate::Places).
    #[must_use]
    pub fn place(&self) -> Option<&PlaceName> {
        self.inner.place.as_ref().map(|place| place.name())
    }

    /// Whether a connection of the pool is in the place that the client is for.
    pub(super) async fn check_place(&self, connection: &mut PgConnection) -> Result<()> {
        match &self.inner.place {
            None => Ok(()),
            Some(place) => place.check(connection).await,
        }
    }

    /// Whether a connection of the caller's is in the place that the client is for. It costs a look-up, and nothing where
    /// the client is for no place.
    pub(super) async fn check_callers_place(&self, connection: &mut PgConnection) -> Result<()> {
        match &self.inner.place {
            None => Ok(()),
            Some(place) => place.check_callers(connection).await,
        }
    }

    /// The value by which the job declares its place. A job that is spread by its id gets one if it has none.
    pub(crate) fn place_value(&self, job: &mut NewJob) -> Result<String> {
        let refuse = |problem, given: &str| {
            Err(Error::InvalidOption { option: "place", problem, given: format!("{given:?} of kind {:?}", job.kind) })
        };
        let defaults = self.defaults();
        let Some(way) = job.options.place.as_ref().or(defaults.place.as_ref()).cloned() else {
            let problem = "the job declares none; hint: #[job(place = \"…\")] or NewJob::place, or name the place with places.at(…) or places.of(…)";
            return refuse(problem, "");
        };
        if way == PlaceBy::UniqueKey && needs_clock(&job.options, defaults) {
            return refuse(
                "a policy with a window makes another key by the clock of each server; hint: place by a member of the args",
                "unique_key",
            );
        }
        if way == PlaceBy::Id {
            job.has_new_id |= job.options.id.is_none();
            job.options.id.get_or_insert_with(JobId::generate);
        }
        // The time is that of a window, which decides no place.
        let row = Resolver::new(self, Some(OffsetDateTime::UNIX_EPOCH)).for_any_place().resolve(job.clone())?;
        match value_of(&way, &row)?.map(Cow::into_owned) {
            Some(value) => Ok(value),
            None => refuse("the job has no such value", way.as_str()),
        }
    }
}
