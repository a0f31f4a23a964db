//! Inserting one job into its place.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use serde_json::Value;

use super::Places;
use crate::error::Result;
use crate::words::ident::PlaceName;
use crate::words::job::{Inserted, NewJob};

impl Places {
    /// Inserts a job into the place that it declares ([`PlaceBy`](crate::PlaceBy)): in `#[job(place = "…")]`, in
    /// [`Job::options`](crate::Job::options), or with [`NewJob::place`]. A job made by name that declares none takes what it
    /// leaves out from its [registered kind](crate::Client::fill_in), its place among it, which costs a look-up.
    ///
    /// The options are the job's own. For an insert in a transaction of the caller's, one that waits for a limited time, and
    /// one that is logged, see [`Places::at`], [`Places::of`] and [`Places::of_job`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for a job that declares no place, or lacks the value that
    /// decides it; [`Error::InvalidMap`](crate::Error::InvalidMap) where the map has no hashed places;
    /// [`Error::PlaceDown`](crate::Error::PlaceDown) where the place does not answer; [`Error::MapMismatch`](crate::Error::MapMismatch);
    /// as for [`Insert`](crate::Insert).
    pub async fn insert(&self, job: impl Into<NewJob>) -> Result<(PlaceName, Inserted)> {
        let mut job = self.fill_in(job.into(), &mut HashMap::new()).await?;
        let index = self.index_of_job(&mut job)?;
        let inserted = self.settle(index, self.inner.clients[index].insert(job).await)?;
        Ok((self.name(index).clone(), inserted))
    }

    /// Fills in a job that is made by name and declares no place. Each kind is read once.
    pub(super) async fn fill_in(&self, job: NewJob, kinds: &mut HashMap<String, Option<Value>>) -> Result<NewJob> {
        if job.is_typed() || job.options.place.is_some() {
            return Ok(job);
        }
        if !kinds.contains_key(job.kind()) {
            kinds.insert(job.kind().to_owned(), self.registered(job.kind()).await?);
        }
        match &kinds[job.kind()] {
            Some(kind) => job.or_registered(kind),
            None => Ok(job),
        }
    }

    /// Reads a registered kind in the first place that answers. Each place knows the kind.
    async fn registered(&self, kind: &str) -> Result<Option<Value>> {
        let clients = &self.inner.clients;
        let first = self.inner.answered.load(Ordering::Relaxed);
        let mut failure = None;
        for index in (first..clients.len()).chain(0..first) {
            match self.settle(index, clients[index].registered_kind(kind).await) {
                Ok(kind) => return Ok(kind),
                Err(error @ crate::Error::PlaceDown { .. }) => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        failure.map_or(Ok(None), Err)
    }
}
