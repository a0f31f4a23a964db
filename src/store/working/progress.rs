//! Storing the progress of running jobs, fenced by worker and run number.

use serde_json::Value;
use sqlx::Row;
use uuid::Uuid;

use super::finish::stored;
use crate::error::Result;
use crate::store::{Store, query};
use crate::words::ident::JobId;

/// The progress of one run.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) id: JobId,
    pub(crate) run: u32,
    pub(crate) progress: Value,
}

impl Store<'_> {
    /// Stores reports, sorted by id, each job once. Returns the jobs whose report was stored. The rows of the others are
    /// locked, or have another run.
    pub(crate) async fn store_progress(self, worker: Uuid, reports: &[Report]) -> Result<Vec<JobId>> {
        let ids: Vec<_> = reports.iter().map(|report| report.id.as_uuid()).collect();
        let runs: Vec<_> = reports.iter().map(|report| stored(report.run)).collect();
        let values: Vec<_> = reports.iter().map(|report| &report.progress).collect();
        let rows = query(&self.statements.store_progress)
            .bind(worker)
            .bind(&ids)
            .bind(&runs)
            .bind(&values)
            .fetch_all(self.connection)
            .await?;
        rows.iter().map(|row| Ok(JobId::from(row.try_get::<Uuid, _>("id")?))).collect()
    }
}
