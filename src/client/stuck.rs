//! Listing jobs that do not move.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use super::look_up::{Source, look_up_setters};
use super::{Client, Request};
use crate::error::Result;
use crate::store;
use crate::watch::StuckJob;

/// A list of stuck jobs, to be awaited. Made by [`Client::stuck_jobs`].
///
/// # Errors
///
/// [`Error::Database`](crate::Error::Database).
#[derive(Debug)]
#[must_use = "a list is not read until it is awaited"]
pub struct StuckJobs<'a> {
    client: &'a Client,
    source: Source<'a>,
    running_for: Duration,
    waiting_for: Duration,
    limit: u32,
}

impl<'a> StuckJobs<'a> {
    /// Lists running jobs whose attempt began longer ago than this, also those of live runners. Default: 1 h.
    pub fn running_for(mut self, length: Duration) -> Self {
        self.running_for = length;
        self
    }

    /// Lists waiting jobs that have been due for longer than this. Default: 1 min.
    pub fn waiting_for(mut self, length: Duration) -> Self {
        self.waiting_for = length;
        self
    }

    /// The most jobs that are listed, also of one reason. Default: 100.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    look_up_setters!();
}

impl<'a> IntoFuture for StuckJobs<'a> {
    type Output = Result<Vec<StuckJob>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { client, source, running_for, waiting_for, limit } = self;
        let look_up = Request::on(client, source, move |client, connection| {
            Box::pin(store::stuck_jobs_list(connection, client.statements(), running_for, waiting_for, limit))
        });
        look_up.into_future()
    }
}

impl Client {
    /// Lists jobs that should have moved and have not, each with a reason and a remedy: running ones of dead runners,
    /// running ones that take long, due ones that were not promoted, available ones that no runner takes. The longest
    /// stuck comes first. As the view `stuck_job`, and read by index.
    pub fn stuck_jobs(&self) -> StuckJobs<'_> {
        let (hour, minute) = (Duration::from_secs(3_600), Duration::from_secs(60));
        StuckJobs { client: self, source: Source::default(), running_for: hour, waiting_for: minute, limit: 100 }
    }
}
