//! Listing and counting jobs.

use super::{Call, Client};
use crate::count::JobCount;
use crate::filter::JobFilter;
use crate::ident::JobId;
use crate::job::JobRow;
use crate::store::{self, Page};

/// The default length of a page.
const PAGE: u32 = 100;

/// A page of jobs, to be awaited. Made by [`Client::jobs`].
pub type Jobs<'a> = Call<'a, Vec<JobRow>, JobsQuery>;

/// Which jobs a page lists.
#[derive(Debug)]
pub struct JobsQuery {
    filter: JobFilter,
    is_oldest_first: bool,
    after: Option<JobId>,
    until: Option<JobId>,
}

impl Jobs<'_> {
    /// Lists the lowest ids first. Default: the highest, which are the newest jobs.
    pub fn oldest_first(mut self) -> Self {
        self.options.is_oldest_first = true;
        self
    }

    /// The most jobs on the page. Default: 100, or the filter's limit.
    pub fn limit(mut self, limit: u32) -> Self {
        self.options.filter.limit = Some(limit);
        self
    }

    /// Goes on after this job, the last of the page before. A page far down costs no more than the first.
    pub fn after(mut self, id: impl Into<JobId>) -> Self {
        self.options.after = Some(id.into());
        self
    }

    /// Goes no further than this id. With [`JobId::first_at`] a list of the last hour reads no older jobs. Default: all.
    pub fn until(mut self, id: impl Into<JobId>) -> Self {
        self.options.until = Some(id.into());
        self
    }
}

impl Client {
    /// Lists jobs, a page at a time.
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
    ///     page = client.jobs(discarded.clone()).after(last.id).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// Ids follow time, so the pages are in time order, and a page starts where the last one ended. Available,
    /// running, waiting and discarded jobs have an index, and so has the holder of a key. A condition on the kind or
    /// the args alone is tested row by row, which takes long where few rows of a large table match. There
    /// [`until`](Jobs::until) limits how far back a list reads.
    ///
    /// # Errors
    ///
    /// As for [`Client::cancel`].
    pub fn jobs(&self, filter: JobFilter) -> Jobs<'_> {
        let query = JobsQuery { filter, is_oldest_first: false, after: None, until: None };
        Call::with(self, query, |client, connection, query| {
            let JobsQuery { filter, is_oldest_first, after, until } = query;
            let page = Page { is_oldest_first, after, until, limit: filter.limit.unwrap_or(PAGE) };
            Box::pin(async move {
                filter.check()?;
                store::list(connection, client.statements(), &filter, page).await
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
                let found = store::count(connection, client.statements(), &filter, i64::from(up_to) + 1).await?;
                Ok(JobCount::up_to(u64::from(up_to), found))
            })
        })
    }
}
