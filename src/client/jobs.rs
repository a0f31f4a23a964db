//! Listing and counting jobs, and the parents of a job.
use std::collections::HashMap;

use super::{Call, Client};
use crate::words::after::JobParent;
use crate::words::count::JobCount;
use crate::words::filter::JobFilter;
use crate::words::ident::JobId;
use crate::words::job::JobRow;

/// The default length of a page.
const PAGE: u32 = 100;

impl Client {
    /// Lists the jobs that match a filter, a page at a time: up to [`JobFilter::limit`] jobs, by default 100, the newest first.
    ///
    /// ```no_run
    /// # use uniqueue::{Client, JobFilter, JobState};
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// let discarded = JobFilter::new().states(JobState::Discarded);
    /// let mut page = client.jobs(discarded.clone()).await?;
    /// while let Some(last) = page.last() {
    ///     for job in &page {
    ///         println!("{} {}: {:?}", job.id, job.kind, job.errors.last());
    ///     }
    ///     page = client.jobs(discarded.clone().after(last.id)).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// Ids follow time, so the pages are in time order, and a page starts where the last one ended. Available,
    /// running, waiting and discarded jobs have an index, and so has the holder of a key. A condition on the kind or
    /// the args alone is tested row by row, which takes long where few rows of a large table match. There
    /// [`JobFilter::id_at_least`] limits how far back a list reads.
    ///
    /// # Errors
    ///
    /// As for [`Client::cancel`].
    pub fn jobs(&self, filter: JobFilter) -> Call<'_, Vec<JobRow>> {
        Call::new(self, move |client, connection| {
            Box::pin(async move {
                filter.check()?;
                client.store(connection).list(&filter, filter.0.limit.unwrap_or(PAGE)).await
            })
        })
    }

    /// Counts the jobs that match a filter, no further than `up_to`. The filter's own limit is ignored.
    ///
    /// # Errors
    ///
    /// As for [`Client::cancel`].
    pub fn count_jobs(&self, filter: JobFilter, up_to: u32) -> Call<'_, JobCount> {
        Call::new(self, move |client, connection| {
            Box::pin(async move {
                filter.check()?;
                let found = client.store(connection).count(&filter, i64::from(up_to) + 1).await?;
                Ok(JobCount::up_to(u64::from(up_to), found))
            })
        })
    }
}

impl Client {
    /// The parents of a job, with their outputs. A deleted parent has only its id, its condition and its outcome.
    /// Parents are kept until the job is final.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn parents(&self, id: impl Into<JobId>) -> Call<'_, Vec<JobParent>> {
        let id = id.into();
        Call::new(self, move |client, connection| {
            Box::pin(async move {
                let mut parents = client.store(connection).parents_of(&[id]).await?;
                Ok(parents.remove(&id).unwrap_or_default())
            })
        })
    }

    /// The [parents](Self::parents) of many jobs, by the ids of the jobs, in one statement. A job without parents is left out.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn parents_of(&self, ids: impl IntoIterator<Item = JobId>) -> Call<'_, HashMap<JobId, Vec<JobParent>>> {
        let ids: Vec<_> = ids.into_iter().collect();
        Call::new(self, move |client, connection| {
            Box::pin(async move { client.store(connection).parents_of(&ids).await })
        })
    }
}
