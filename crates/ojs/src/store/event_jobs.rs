//! The columns of jobs that events and the ends of workflows are told from. Args, meta and output are not read.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::json;
use time::OffsetDateTime;
use uniqueue::{AttemptError, Call, JobId, JobState, Result};

use super::Store;

/// Of the newest 10,000 jobs the newest 1,000 of these queues. They are found by the primary key.
const NEWEST: &str = "
SELECT
    n.id, n.state, CASE WHEN isfinite(n.attempted_at) THEN n.attempted_at END AS attempted_at,
    CASE WHEN isfinite(n.finalized_at) THEN n.finalized_at END AS finalized_at, n.created_at, n.kind, n.queue, n.attempt,
    CASE
        WHEN n.errors = '[]' THEN '[]'
        WHEN jsonb_typeof(n.errors) = 'array' THEN (
            SELECT jsonb_agg(CASE WHEN jsonb_typeof(e.value) = 'object' THEN e.value - 'details' ELSE e.value END ORDER BY e.place)
            FROM jsonb_array_elements(n.errors) WITH ORDINALITY AS e (value, place)
        )
        ELSE jsonb_build_array(n.errors)
    END AS errors
FROM (
    SELECT j.id, j.state, j.attempted_at, j.finalized_at, j.created_at, j.kind, j.queue, j.attempt, j.errors
    FROM /* schema */job AS j
    ORDER BY j.id DESC
    LIMIT 10000
) AS n
WHERE ($1::jsonb ->> 'queues' IS NULL OR $1::jsonb -> 'queues' ? n.queue::text) AND isfinite(n.created_at)
ORDER BY n.id DESC
LIMIT 1000";

/// The states and starts of these jobs.
const PROGRESS: &str = "
SELECT j.id, j.state, CASE WHEN isfinite(j.attempted_at) THEN j.attempted_at END AS attempted_at
FROM /* schema */job AS j
WHERE j.id = ANY (ARRAY(SELECT e.id::uuid FROM jsonb_array_elements_text($1::jsonb -> 'ids') AS e (id)))";

/// A job as far as events tell it.
#[derive(Deserialize)]
pub(crate) struct EventJob {
    #[serde(flatten)]
    pub(crate) progress: JobProgress,
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) attempt: u16,
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    pub(crate) finalized_at: Option<OffsetDateTime>,
    /// Without their details.
    pub(crate) errors: Vec<AttemptError>,
}

/// The state of a job, and when its last attempt began.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct JobProgress {
    pub(crate) id: JobId,
    pub(crate) state: JobState,
    #[serde(with = "time::serde::rfc3339::option")]
    pub(crate) attempted_at: Option<OffsetDateTime>,
}

impl Store {
    /// The newest jobs of these queues, or of all.
    pub(crate) fn newest_jobs(&self, queues: Option<Vec<String>>) -> Call<'_, Vec<EventJob>> {
        self.call(NEWEST, json!({ "queues": queues }))
    }

    /// How far these jobs are, as far as they exist.
    pub(crate) async fn progress_of(&self, jobs: &[JobId]) -> Result<HashMap<JobId, JobProgress>> {
        let rows: Vec<JobProgress> = self.call(PROGRESS, json!({ "ids": jobs })).await?;
        Ok(rows.into_iter().map(|job| (job.id, job)).collect())
    }
}
