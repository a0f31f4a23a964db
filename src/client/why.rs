//! Why jobs wait.

use std::collections::HashMap;

use super::{Call, Client, Queue};
use crate::store;
use crate::words::ident::{JobId, QueueName};
use crate::words::why::{FirstJob, Obstacle};

impl Client {
    /// Says why a job has not started: what keeps it, the first obstacle to go first, each with a code, a sentence and
    /// what to do about it. Empty: there is no such job.
    ///
    /// ```no_run
    /// # use uniqueue::{Client, JobId, ObstacleCode};
    /// # async fn run(client: Client, id: JobId) -> uniqueue::Result<()> {
    /// for obstacle in client.why(id).await? {
    ///     println!("{}", obstacle.reason); // Queue "emails" has been paused since 2026-11-21 22:30:00 UTC.
    ///     if obstacle.code == ObstacleCode::QueuePaused {
    ///         client.queue("emails").resume().await?;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// A job that nothing holds up has the one code [`Next`](crate::ObstacleCode::Next). One that runs or is final has one
    /// that says so. As the SQL function `why_waiting`. It locks nothing, reads a few index entries, and counts no further
    /// than 10,000 jobs.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn why(&self, id: impl Into<JobId>) -> Call<'_, Vec<Obstacle>> {
        let id = id.into();
        Call::new(self, move |client, connection| Box::pin(store::why(connection, client.statements(), id)))
    }

    /// Says of each of these jobs what keeps it first, as [`Client::why`] does. Jobs that do not exist are left out.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn first_obstacles(&self, ids: impl IntoIterator<Item = JobId>) -> Call<'_, HashMap<JobId, Obstacle>> {
        let ids: Vec<_> = ids.into_iter().collect();
        Call::new(self, move |client, connection| {
            Box::pin(async move {
                let first = store::why_first(connection, client.statements(), &ids).await?;
                Ok(first.into_iter().collect())
            })
        })
    }
}

impl<'a> Queue<'a> {
    /// Says what keeps the first available job of the queue from starting, as [`Client::why`] does. `None`: no job of the
    /// queue is available.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`](crate::Error::InvalidName), [`Error::Database`](crate::Error::Database).
    pub fn why(self) -> Call<'a, Option<FirstJob>> {
        let name = QueueName::new(self.name);
        Call::new(self.client, move |client, connection| {
            Box::pin(async move { store::why_queue(connection, client.statements(), &name?).await })
        })
    }
}
