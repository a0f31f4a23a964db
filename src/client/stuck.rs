//! Listing jobs that do not move.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use sqlx::PgConnection;

use super::Client;
use super::look_up::Source;
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

    /// Asks in the caller's own transaction, or on any other connection of the caller's.
    pub fn tx(mut self, connection: &'a mut PgConnection) -> Self {
        self.source.connection = Some(connection);
        self
    }

    /// How long the statement may take. See [`Request::timeout`](crate::Request::timeout).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.source.timeout = Some(timeout);
        self
    }
}

impl<'a> IntoFuture for StuckJobs<'a> {
    type Output = Result<Vec<StuckJob>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, source, running_for, waiting_for, limit } = self;
            let mut connection = source.open(client).await?;
            let statements = client.statements();
            let answer = store::stuck_jobs_list(&mut connection, statements, running_for, waiting_for, limit).await;
            connection.end(client, answer).await
        })
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
