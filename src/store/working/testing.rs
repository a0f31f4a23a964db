//! Statements of the testing kit: it finds the next job, starts one for a worker, and asks what a rate or a hold keeps back.

use std::time::Duration;

use sqlx::Row;
use uuid::Uuid;

use crate::error::Result;
use crate::store::row::{count, job_row};
use crate::store::{Store, query};
use crate::words::ident::{JobId, QueueName};
use crate::words::job::JobRow;

impl Store<'_> {
    /// Starts a job for a worker at a given attempt, and returns its row.
    pub(crate) async fn start_job(self, id: JobId, attempt: i16, worker: Uuid) -> Result<JobRow> {
        let row = query(&self.statements.start_job)
            .bind(id.as_uuid())
            .bind(attempt)
            .bind(worker)
            .fetch_one(self.connection)
            .await?;
        job_row(&row)
    }

    /// The job that several queues would run first, its queue and its crashes.
    pub(crate) async fn next_job(
        self,
        queues: &[&str],
        kinds: Option<&[String]>,
    ) -> Result<Option<(JobId, String, u16)>> {
        let row = query(&self.statements.next_job).bind(queues).bind(kinds).fetch_optional(self.connection).await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some((JobId::from(row.try_get::<Uuid, _>("id")?), row.try_get("queue")?, count(row.try_get("crashes")?))))
    }

    /// How long a rate or a hold lets no job of a queue start, or of its group. `None`: one may start now.
    pub(crate) async fn held_back(self, queue: &QueueName, group: Option<&str>) -> Result<Option<Duration>> {
        let row = query(&self.statements.held_back).bind(queue.as_str()).bind(group).fetch_one(self.connection).await?;
        let next_in: Option<f64> = row.try_get("next_in")?;
        Ok(next_in.filter(|seconds| *seconds > 0.0).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
    }
}
