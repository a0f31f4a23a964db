//! The stored workflows.

use std::collections::HashMap;

use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row, SqlStr};
use time::OffsetDateTime;
use uniqueue::JobId;
use uuid::Uuid;

use super::Store;

/// A workflow as it is stored.
pub(crate) struct Workflow {
    pub(crate) id: Uuid,
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
    pub(crate) parts: Value,
    pub(crate) state: String,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) ended_at: Option<OffsetDateTime>,
}

/// From these jobs ($1) each job that took the place of one of them, directly or not.
const SUCCESSORS: &str = "
    WITH RECURSIVE next AS (
        SELECT j.id AS replaced, j.replaced_by AS id FROM /* queue */job AS j WHERE j.id = ANY ($1) AND j.replaced_by IS NOT NULL
        UNION
        SELECT n.replaced, j.replaced_by FROM next AS n INNER JOIN /* queue */job AS j ON j.id = n.id AND j.replaced_by IS NOT NULL
    )
    SELECT n.replaced, n.id FROM next AS n";

impl Store {
    /// Enters a new workflow. `after`: for each step the places of the steps that it runs after.
    pub(crate) async fn add_workflow(
        &self,
        tx: &mut PgConnection,
        workflow: &Workflow,
        after: &[Vec<usize>],
    ) -> sqlx::Result<()> {
        let Workflow { id, kind, name, parts, created_at, .. } = workflow;
        let sql =
            "INSERT INTO /* door */workflow (id, kind, name, parts, created_at, after) VALUES ($1, $2, $3, $4, $5, $6)";
        let adding = sqlx::query(self.sql(sql)).bind(id).bind(kind).bind(name).bind(parts).bind(created_at);
        adding.bind(Json(after)).execute(tx).await.map(drop)
    }

    pub(crate) async fn workflow(&self, id: Uuid) -> sqlx::Result<Option<Workflow>> {
        let row = sqlx::query(self.select("WHERE id = $1")).bind(id).fetch_optional(&self.pool).await?;
        row.as_ref().map(workflow).transpose()
    }

    /// Running workflows in the order of their ids, which follow the time, after an id.
    pub(crate) async fn running_workflows(&self, after: Uuid, most: i64) -> sqlx::Result<Vec<Workflow>> {
        let sql = self.select("WHERE state = 'running' AND id > $1 ORDER BY id LIMIT $2");
        let rows = sqlx::query(sql).bind(after).bind(most).fetch_all(&self.pool).await?;
        rows.iter().map(workflow).collect()
    }

    /// The newest workflows first.
    pub(crate) async fn newest_workflows(&self, most: i64) -> sqlx::Result<Vec<Workflow>> {
        let rows = sqlx::query(self.select("ORDER BY id DESC LIMIT $1")).bind(most).fetch_all(&self.pool).await?;
        rows.iter().map(workflow).collect()
    }

    /// Notes the end of a running workflow. Returns whether it ran.
    pub(crate) async fn end_workflow(&self, id: Uuid, state: &str) -> sqlx::Result<bool> {
        let sql = "UPDATE /* door */workflow SET state = $2, ended_at = clock_timestamp() WHERE id = $1 AND state = 'running'";
        let done = sqlx::query(self.sql(sql)).bind(id).bind(state).execute(&self.pool).await?;
        Ok(done.rows_affected() == 1)
    }

    /// The parts of these workflows, and for each step the places of the steps that it runs after.
    pub(crate) async fn steps(
        &self,
        connection: &mut PgConnection,
        workflows: &[Uuid],
    ) -> sqlx::Result<HashMap<Uuid, (Value, Vec<Vec<usize>>)>> {
        let sql = "SELECT id, parts, after FROM /* door */workflow WHERE id = ANY ($1)";
        let rows = sqlx::query(self.sql(sql)).bind(workflows).fetch_all(connection).await?;
        let steps = |row: &PgRow| {
            let Json(after) = row.try_get(2)?;
            Ok((row.try_get(0)?, (row.try_get(1)?, after)))
        };
        rows.iter().map(steps).collect()
    }

    /// Of jobs that were replaced all their successors.
    pub(crate) async fn successors(
        &self,
        connection: &mut PgConnection,
        jobs: &[JobId],
    ) -> sqlx::Result<HashMap<JobId, Vec<JobId>>> {
        let ids: Vec<_> = jobs.iter().map(|job| job.as_uuid()).collect();
        let rows = sqlx::query(self.sql(SUCCESSORS)).bind(ids).fetch_all(connection).await?;
        let mut successors = HashMap::<_, Vec<_>>::new();
        for row in rows {
            let (replaced, by): (Uuid, Uuid) = (row.try_get(0)?, row.try_get(1)?);
            successors.entry(JobId::from(replaced)).or_default().push(JobId::from(by));
        }
        Ok(successors)
    }

    fn select(&self, which: &str) -> SqlStr {
        self.sql(&format!("SELECT id, kind, name, parts, state, created_at, ended_at FROM /* door */workflow {which}"))
    }
}

fn workflow(row: &PgRow) -> sqlx::Result<Workflow> {
    Ok(Workflow {
        id: row.try_get(0)?,
        kind: row.try_get(1)?,
        name: row.try_get(2)?,
        parts: row.try_get(3)?,
        state: row.try_get(4)?,
        created_at: row.try_get(5)?,
        ended_at: row.try_get(6)?,
    })
}
