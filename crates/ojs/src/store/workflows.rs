//! The stored workflows.

use std::collections::HashMap;

use serde::Deserialize;
use sqlx::types::Json;
use sqlx::{PgConnection, PgExecutor};
use time::OffsetDateTime;
use uniqueue::JobId;
use uuid::Uuid;

use super::{Store, read_all, uuids};
use crate::workflow::Part;

/// A workflow as it is stored.
#[derive(Deserialize)]
pub(crate) struct Workflow {
    pub(crate) id: Uuid,
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
    pub(crate) parts: Vec<Part>,
    /// By their places.
    pub(crate) jobs: Vec<JobId>,
    pub(crate) state: String,
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    pub(crate) ended_at: Option<OffsetDateTime>,
}

/// The workflows with these ids ($1).
pub(crate) const OF_IDS: &str = "w.id = ANY ($1)";

/// Running workflows after the first of these ids. The order of ids is that of time.
pub(crate) const RUNNING_AFTER: &str = "w.state = 'running' AND w.id > ($1::uuid[])[1] ORDER BY w.id LIMIT 500";

/// The newest workflows but these, the newest first.
pub(crate) const NEWEST_BUT: &str = "w.id <> ALL ($1) ORDER BY w.id DESC LIMIT 100";

/// From these jobs ($1) each job that took the place of one of them, directly or not.
const SUCCESSORS: &str = "
    WITH RECURSIVE next AS (
        SELECT j.id AS replaced, j.replaced_by AS id FROM /* queue */job AS j WHERE j.id = ANY ($1) AND j.replaced_by IS NOT NULL
        UNION
        SELECT n.replaced, j.replaced_by FROM next AS n INNER JOIN /* queue */job AS j ON j.id = n.id AND j.replaced_by IS NOT NULL
    )
    SELECT n.replaced, n.id FROM next AS n";

impl Store {
    /// Enters a new workflow.
    pub(crate) async fn add_workflow(&self, tx: &mut PgConnection, workflow: &Workflow) -> sqlx::Result<()> {
        let Workflow { id, kind, name, parts, jobs, created_at, .. } = workflow;
        let sql =
            "INSERT INTO /* door */workflow (id, kind, name, parts, jobs, created_at) VALUES ($1, $2, $3, $4, $5, $6)";
        let adding = sqlx::query(self.sql(sql)).bind(id).bind(kind).bind(name).bind(Json(parts)).bind(uuids(jobs));
        adding.bind(created_at).execute(tx).await.map(drop)
    }

    /// The workflows that one of the conditions above selects by these ids.
    pub(crate) async fn workflows(
        &self,
        executor: impl PgExecutor<'_>,
        which: &str,
        ids: &[Uuid],
    ) -> sqlx::Result<Vec<Workflow>> {
        let sql = format!("SELECT to_jsonb(w) FROM /* door */workflow AS w WHERE {which}");
        read_all(executor, sqlx::query_scalar(self.sql(&sql)).bind(ids)).await
    }

    /// Notes the end of a running workflow. Returns whether it ran.
    pub(crate) async fn end_workflow(&self, id: Uuid, state: &str) -> sqlx::Result<bool> {
        let sql = "UPDATE /* door */workflow SET state = $2, ended_at = clock_timestamp() WHERE id = $1 AND state = 'running'";
        let done = sqlx::query(self.sql(sql)).bind(id).bind(state).execute(&self.pool).await?;
        Ok(done.rows_affected() == 1)
    }

    /// Of jobs that were replaced all their successors.
    pub(crate) async fn successors(
        &self,
        connection: &mut PgConnection,
        jobs: &[JobId],
    ) -> sqlx::Result<HashMap<JobId, Vec<JobId>>> {
        let rows: Vec<(Uuid, Uuid)> =
            sqlx::query_as(self.sql(SUCCESSORS)).bind(uuids(jobs)).fetch_all(connection).await?;
        let mut successors = HashMap::<_, Vec<_>>::new();
        for (replaced, by) in rows {
            successors.entry(JobId::from(replaced)).or_default().push(JobId::from(by));
        }
        Ok(successors)
    }
}
