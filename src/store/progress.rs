//! Storing what running jobs report, fenced by worker and attempt.

use serde_json::Value;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{Statements, query};
use crate::error::Result;
use crate::ident::JobId;

/// What one attempt reports.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) id: JobId,
    pub(crate) attempt: u16,
    pub(crate) progress: Value,
}

/// Stores reports, sorted by id, each job once. Answers with those that were stored: the others'
/// rows are locked by somebody, or are no longer these attempts'.
pub(crate) async fn store_progress(
    connection: &mut PgConnection,
    statements: &Statements,
    worker: Uuid,
    reports: &[Report],
) -> Result<Vec<JobId>> {
    let ids: Vec<_> = reports.iter().map(|report| report.id.as_uuid()).collect();
    let attempts: Vec<_> = reports.iter().map(|report| i16::try_from(report.attempt).unwrap_or(i16::MAX)).collect();
    let values: Vec<_> = reports.iter().map(|report| &report.progress).collect();
    let rows = query(&statements.store_progress)
        .bind(worker)
        .bind(&ids)
        .bind(&attempts)
        .bind(&values)
        .fetch_all(connection)
        .await?;
    rows.iter().map(|row| Ok(JobId::from(row.try_get::<Uuid, _>("id")?))).collect()
}
