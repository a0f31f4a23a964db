//! Parents, children and descendants of jobs.

use std::collections::HashMap;

use super::{Call, Client};
use crate::store;
use crate::words::after::{JobChild, JobParent};
use crate::words::ident::JobId;
use crate::words::state::JobState;

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
                let mut parents = store::parents_of(connection, client.statements(), &[id]).await?;
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
            Box::pin(async move { store::parents_of(connection, client.statements(), &ids).await })
        })
    }

    /// Up to `limit` jobs that run after a job.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn children(&self, id: impl Into<JobId>, limit: u32) -> Call<'_, Vec<JobChild>> {
        let id = id.into();
        Call::new(self, move |client, connection| {
            Box::pin(store::children_of(connection, client.statements(), id, limit))
        })
    }

    /// The ids of these jobs, and of all jobs that run after them, directly or through other jobs. The first jobs of a graph
    /// give the ids of the whole graph:
    ///
    /// ```no_run
    /// # use uniqueue::{Client, JobId};
    /// # async fn run(client: Client, first: JobId) -> uniqueue::Result<()> {
    /// client.cancel(client.descendants([first]).await?).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn descendants(&self, ids: impl IntoIterator<Item = JobId>) -> Call<'_, Vec<JobId>> {
        let ids: Vec<_> = ids.into_iter().collect();
        Call::new(self, move |client, connection| {
            Box::pin(async move { store::descendants_of(connection, client.statements(), &ids).await })
        })
    }

    /// The jobs that [`Client::retry_graph`] would change now, each with its new state: available or pending. It does not look
    /// for other jobs that hold their unique keys.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn retry_graph_plan(&self, id: impl Into<JobId>) -> Call<'_, Vec<(JobId, JobState)>> {
        let id = id.into();
        Call::new(self, move |client, connection| {
            Box::pin(store::retry_graph_plan(connection, client.statements(), id))
        })
    }
}
