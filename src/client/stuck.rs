//! Listing jobs that do not move.

use std::time::Duration;

use super::{Call, Client};
use crate::overview::StuckJob;
use crate::store;

/// A list of stuck jobs, to be awaited. Made by [`Client::stuck_jobs`].
///
/// # Errors
///
/// [`Error::Database`](crate::Error::Database).
pub type StuckJobs<'a> = Call<'a, Vec<StuckJob>, StuckJobsQuery>;

/// Which stuck jobs are listed.
#[derive(Debug)]
pub struct StuckJobsQuery {
    running_for: Duration,
    waiting_for: Duration,
    limit: u32,
}

impl StuckJobs<'_> {
    /// Lists running jobs whose attempt began longer ago than this, also those of live runners. Default: 1 h.
    pub fn running_for(mut self, length: Duration) -> Self {
        self.options.running_for = length;
        self
    }

    /// Lists waiting jobs that have been due for longer than this. Default: 1 min.
    pub fn waiting_for(mut self, length: Duration) -> Self {
        self.options.waiting_for = length;
        self
    }

    /// The most jobs that are listed, also of one reason. Default: 100.
    pub fn limit(mut self, limit: u32) -> Self {
        self.options.limit = limit;
        self
    }
}

impl Client {
    /// Lists jobs that should have moved and have not, each with a reason and a remedy: running ones of dead runners,
    /// running ones that take long, due ones that were not promoted, available ones that no runner takes. The longest
    /// stuck comes first. As the view `stuck_job`, and read by index.
    pub fn stuck_jobs(&self) -> StuckJobs<'_> {
        let (hour, minute) = (Duration::from_secs(3_600), Duration::from_secs(60));
        let query = StuckJobsQuery { running_for: hour, waiting_for: minute, limit: 100 };
        Call::with(self, query, |client, connection, query| {
            let StuckJobsQuery { running_for, waiting_for, limit } = query;
            Box::pin(store::stuck_jobs_list(connection, client.statements(), running_for, waiting_for, limit))
        })
    }
}
