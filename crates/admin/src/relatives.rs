//! Children and descendants of jobs.

use serde::{Deserialize, Serialize};
use serde_json::json;
use uniqueue::{AfterCondition, Call, JobId, JobState, Kind, QueueName};

use crate::Admin;
use crate::statement::{OfId, arguments, ask, collect};

/// A child of a job, as [`Admin::children`] lists it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobChild {
    /// Its id.
    pub id: JobId,
    /// Its kind.
    pub kind: Kind,
    /// Its queue.
    pub queue: QueueName,
    /// Its state now.
    pub state: JobState,
    /// How the parent has to end.
    pub condition: AfterCondition,
    /// The final state of the parent that counts for the child. `None`: the child still waits for the parent.
    pub outcome: Option<JobState>,
}

const CHILDREN: &str = "SELECT c.id, c.kind, c.queue, c.state, c.condition, c.outcome
FROM /* schema */children_of(($1::jsonb ->> 'id')::uuid, ($1::jsonb ->> 'limit')::integer) AS c
ORDER BY c.id";

const DESCENDANTS: &str = "SELECT d.id
FROM /* schema */descendants_of(ARRAY(SELECT g.id::uuid FROM jsonb_array_elements_text($1::jsonb -> 'ids') AS g (id))) AS d (id)
ORDER BY d.id";

const RETRY_GRAPH_PLAN: &str = "SELECT c.id, c.state
FROM /* schema */retry_graph(($1::jsonb ->> 'id')::uuid, true) AS c
ORDER BY c.id";

#[derive(Deserialize)]
struct Retried {
    id: JobId,
    state: JobState,
}

impl<'a> Admin<'a> {
    /// Up to `limit` jobs that run after a job. Its [parents](uniqueue::Client::parents) are a question of the client.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn children(self, id: impl Into<JobId>, limit: u32) -> Call<'a, Vec<JobChild>> {
        let limit = limit.min(i32::MAX.unsigned_abs());
        ask(self.client, CHILDREN, arguments(json!({ "id": id.into(), "limit": limit })))
    }

    /// The ids of these jobs, and of all jobs that run after them, directly or through other jobs. The first jobs of a graph
    /// give the ids of the whole graph:
    ///
    /// ```no_run
    /// # use uniqueue::{Client, JobId};
    /// # use uniqueue_admin::Admin;
    /// # async fn run(client: Client, first: JobId) -> uniqueue::Result<()> {
    /// client.cancel(Admin::new(&client).descendants([first]).await?).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn descendants(self, ids: impl IntoIterator<Item = JobId>) -> Call<'a, Vec<JobId>> {
        let ids: Vec<_> = ids.into_iter().collect();
        collect(self.client, DESCENDANTS, arguments(json!({ "ids": ids })), |rows: Vec<OfId>| {
            rows.into_iter().map(|row| row.id).collect()
        })
    }

    /// The jobs that [`Client::retry_graph`](uniqueue::Client::retry_graph) would change now, each with its new state:
    /// available or pending. It does not look for other jobs that hold their unique keys.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn retry_graph_plan(self, id: impl Into<JobId>) -> Call<'a, Vec<(JobId, JobState)>> {
        collect(self.client, RETRY_GRAPH_PLAN, arguments(json!({ "id": id.into() })), |rows: Vec<Retried>| {
            rows.into_iter().map(|row| (row.id, row.state)).collect()
        })
    }
}
