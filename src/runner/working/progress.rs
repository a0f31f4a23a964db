//! Stores the progress that jobs report: once a second all new reports, in one statement.
//!
//! A failure costs a second and nothing else: reports that were not stored are still new.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::Result;
use crate::runner::recording::rejected::is_hopeless;
use crate::runner::shared::Shared;
use crate::store::Report;
use crate::words::ident::JobId;

/// How often new reports are stored.
const INTERVAL: Duration = Duration::from_secs(1);

pub(in crate::runner) async fn store(shared: Arc<Shared>, closing: CancellationToken) {
    loop {
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        tokio::select! {
            () = closing.cancelled() => return,
            () = store_new(&shared) => {}
        }
    }
}

async fn store_new(shared: &Shared) {
    let worker = shared.leases.current().id;
    let reports = &shared.workers.reports;
    let batch = reports.new_under(worker);
    if batch.reports.is_empty() {
        return;
    }
    match send(shared, worker, &batch.reports).await {
        Ok(stored) => reports.stored(worker, &batch, &stored),
        // One report that the database rejects must not hold up the others.
        Err(error) if is_hopeless(&error) => {
            for report in &batch.reports {
                match send(shared, worker, std::slice::from_ref(report)).await {
                    Ok(stored) => reports.stored(worker, &batch, &stored),
                    Err(error) => {
                        tracing::warn!(job.id = %report.id, %error, "a job's progress cannot be stored");
                        if is_hopeless(&error) {
                            // It is not sent again.
                            reports.stored(worker, &batch, &[report.id]);
                        }
                    }
                }
            }
        }
        Err(error) => tracing::debug!(%error, "progress not stored yet"),
    }
}

async fn send(shared: &Shared, worker: Uuid, reports: &[Report]) -> Result<Vec<JobId>> {
    shared.ask(async |store| store.store_progress(worker, reports).await).await
}
