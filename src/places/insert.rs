//! Inserting one job into its place.

use std::collections::HashMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Places;
use crate::error::Result;
use crate::words::ident::PlaceName;
use crate::words::job::{Inserted, NewJob};
use crate::words::kind::KindRow;
use crate::words::opts::{InsertOptions, insert_setters};

/// A value, and the place that it comes from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Placed<T> {
    /// The place.
    pub place: PlaceName,
    /// The value.
    pub value: T,
}

/// One insert into the place of its job, to be awaited. Made by [`Places::insert`].
#[derive(Debug)]
#[must_use = "an insert does nothing until it is awaited"]
pub struct PlaceInsert<'a> {
    places: &'a Places,
    job: NewJob,
    max_wait: Option<Duration>,
    actor: Option<String>,
}

impl Places {
    /// Inserts a job into the place that it declares ([`PlaceBy`](crate::PlaceBy)): in `#[job(place = "…")]`, in
    /// [`Job::options`](crate::Job::options), or with [`NewJob::place`]. A job made by name that declares none takes what it
    /// leaves out from its [registered kind](crate::Client::kinds), its place among it, which costs a look-up.
    ///
    /// For an insert in a transaction of the caller's, see [`Places::at`], [`Places::of`] and [`Places::of_job`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for a job that declares no place, or lacks the value that
    /// decides it; [`Error::InvalidMap`](crate::Error::InvalidMap) where the map has no hashed places;
    /// [`Error::PlaceDown`](crate::Error::PlaceDown) where the place does not answer; [`Error::MapMismatch`](crate::Error::MapMismatch);
    /// as for [`Insert`](crate::Insert).
    pub fn insert(&self, job: impl Into<NewJob>) -> PlaceInsert<'_> {
        PlaceInsert { places: self, job: job.into(), max_wait: None, actor: None }
    }

    /// Fills in a job that is made by name and declares no place. Each kind is read once.
    pub(super) async fn fill_in(&self, job: NewJob, kinds: &mut HashMap<String, Option<KindRow>>) -> Result<NewJob> {
        if job.is_typed() || job.options.place.is_some() {
            return Ok(job);
        }
        if !kinds.contains_key(job.kind()) {
            kinds.insert(job.kind().to_owned(), self.registered(job.kind()).await?);
        }
        match &kinds[job.kind()] {
            Some(kind) => kind.fill_in(job),
            None => Ok(job),
        }
    }

    /// Reads a registered kind in the first place that answers. Each place knows the kind.
    async fn registered(&self, kind: &str) -> Result<Option<KindRow>> {
        let clients = &self.inner.clients;
        let first = self.inner.answered.load(Ordering::Relaxed);
        let mut failure = None;
        for index in (first..clients.len()).chain(0..first) {
            match self.settle(index, clients[index].kinds().find(kind).await) {
                Ok(kind) => return Ok(kind),
                Err(error @ crate::Error::PlaceDown { .. }) => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        failure.map_or(Ok(None), Err)
    }
}

impl PlaceInsert<'_> {
    /// Waits no longer than this for an uncommitted rival with the same key. Default: for ever.
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = Some(max_wait);
        self
    }

    /// Logs the insert with this name: see [`Insert::actor`](crate::Insert::actor).
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    fn options_mut(&mut self) -> &mut InsertOptions {
        &mut self.job.options
    }
}

insert_setters!(PlaceInsert<'a>);

impl<'a> IntoFuture for PlaceInsert<'a> {
    type Output = Result<Placed<Inserted>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { places, job, max_wait, actor } = self;
            let mut job = places.fill_in(job, &mut HashMap::new()).await?;
            let index = places.index_of_job(&mut job)?;
            let mut insert = places.inner.clients[index].insert(job);
            if let Some(max_wait) = max_wait {
                insert = insert.max_wait(max_wait);
            }
            if let Some(actor) = actor {
                insert = insert.actor(actor);
            }
            let value = places.settle(index, insert.await)?;
            Ok(Placed { place: places.name(index).clone(), value })
        })
    }
}
