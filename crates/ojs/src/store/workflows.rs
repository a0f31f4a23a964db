//! The stored workflows.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use uniqueue::{Call, JobId, Result};
use uuid::Uuid;

use super::Store;
use crate::workflow::Part;

/// A workflow as it is stored.
#[derive(Deserialize, Serialize)]
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

/// The workflows with these `ids`.
pub(crate) const OF_IDS: &str =
    "WHERE w.id = ANY (ARRAY(SELECT e.id::uuid FROM jsonb_array_elements_text($1::jsonb -> 'ids') AS e (id)))";

/// Running workflows behind the id `after`. The order of ids is that of time.
pub(crate) const RUNNING_AFTER: &str =
    "WHERE w.state = 'running' AND w.id > ($1::jsonb ->> 'after')::uuid ORDER BY w.id LIMIT 500";

/// The newest workflows, the newest first.
pub(crate) const NEWEST: &str = "ORDER BY w.id DESC LIMIT 100";

/// From these jobs each job that took the place of one of them, directly or not.
const SUCCESSORS: &str = "
WITH RECURSIVE next AS (
    SELECT j.id AS replaced, j.replaced_by AS id
    FROM /* schema */job AS j
    WHERE j.id = ANY (ARRAY(SELECT e.id::uuid FROM jsonb_array_elements_text($1::jsonb -> 'ids') AS e (id))) AND j.replaced_by IS NOT NULL
    UNION
    SELECT n.replaced, j.replaced_by
    FROM next AS n
    INNER JOIN /* schema */job AS j ON j.id = n.id AND j.replaced_by IS NOT NULL
)
SELECT n.replaced, n.id FROM next AS n";

/// A job that took the place of another.
#[derive(Deserialize)]
pub(crate) struct Successor {
    pub(crate) replaced: JobId,
    pub(crate) id: JobId,
}

impl Store {
    /// Enters a new workflow.
    pub(crate) fn add_workflow(&self, workflow: &Workflow) -> Call<'_, Vec<IgnoredAny>> {
        let sql = "INSERT INTO /* door */workflow
                   SELECT w.* FROM jsonb_populate_record(NULL::/* door */workflow, $1::jsonb) AS w RETURNING id";
        self.call(sql, json!(workflow))
    }

    /// The workflows that one of the conditions above selects by these arguments.
    pub(crate) fn workflows(&self, which: &str, arguments: Value) -> Call<'_, Vec<Workflow>> {
        self.call(&format!("SELECT w.* FROM /* door */workflow AS w {which}"), arguments)
    }

    /// Notes the end of a running workflow. Returns whether it ran.
    pub(crate) async fn end_workflow(&self, id: Uuid, state: &str) -> Result<bool> {
        let sql = "UPDATE /* door */workflow SET state = $1::jsonb ->> 'state', ended_at = clock_timestamp()
                   WHERE id = ($1::jsonb ->> 'id')::uuid AND state = 'running' RETURNING id";
        let ended: Vec<IgnoredAny> = self.call(sql, json!({ "id": id, "state": state })).await?;
        Ok(!ended.is_empty())
    }

    /// Of jobs that were replaced all their successors.
    pub(crate) fn successors(&self, jobs: &[JobId]) -> Call<'_, Vec<Successor>> {
        self.call(SUCCESSORS, json!({ "ids": jobs }))
    }
}
