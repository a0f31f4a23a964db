//! Ends attempts that take longer than the `timeout_ms` of their job.
//!
//! One task ends late runs that this process handed out. Where the process dies, the reservation ends at
//! about the same time, and maintenance takes the job back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::task::AbortOnDropHandle;
use uniqueue::{Client, JobError, JobFilter, JobState};
use uniqueue_remote::{JobResult, Remote, Reported};

use crate::reservations::{Held, Runs};

/// The interval of the search for late runs. A reservation ends half a second after the deadline or later.
const EVERY: Duration = Duration::from_millis(250);

/// The wait before another try, where the database did not answer or the job was locked.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The most runs that end in one statement.
const BATCH: usize = 500;

/// Ends late runs, until the handle is dropped.
pub(crate) fn start(client: Client, runs: Arc<Runs>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            tokio::time::sleep(EVERY).await;
            for late in runs.late(TRY_AGAIN).chunks(BATCH) {
                if let Err(error) = end(&client, &runs, late).await {
                    tracing::warn!(%error, jobs = late.len(), "late jobs could not be ended, trying again");
                }
            }
        }
    }))
}

/// Ends late runs, apart from those whose jobs are locked.
async fn end(client: &Client, runs: &Runs, late: &[Held]) -> uniqueue::Result<()> {
    let now = Instant::now();
    let is_reserved = |held: &&Held| held.until > now;
    // Another process may have extended a reservation. Of a run that was taken back nothing is reported, because a report means
    // that its worker lives.
    let lapsed = late.iter().filter(|held| !is_reserved(held)).map(|held| held.run.id);
    let running = JobFilter::new().ids(lapsed).states(JobState::Running);
    let rows = client.jobs(running.limit(u32::try_from(BATCH).unwrap_or(u32::MAX))).await?;
    let is_running = |held: &&Held| rows.iter().any(|row| row.id == held.run.id && row.run == held.run.run);
    let (late, over): (Vec<_>, Vec<_>) = late.iter().partition(|held| is_reserved(held) || is_running(held));
    for held in over {
        runs.remove(held.run);
    }
    let results = late.into_iter().map(|held| {
        let millis = held.details.timeout_ms.unwrap_or_default();
        let error =
            JobError::new(format!("the attempt took longer than {millis} ms")).code("timeout").error_type("timeout");
        JobResult::fail(held.run, with_delay(error, held))
    });
    let finished = Remote::new(client).finish_jobs(results.collect::<Vec<_>>()).await?;
    for Reported { run, .. } in finished.into_iter().filter(|finished| !finished.locked) {
        runs.remove(run);
        tracing::info!(job.id = %run.id, "a job took longer than its timeout_ms");
    }
    Ok(())
}

/// The error with the wait of the job's policy. A job without a policy waits as its kind says.
pub(crate) fn with_delay(error: JobError, held: &Held) -> JobError {
    match held.policy() {
        Some(policy) => error.retry_after(policy.delay(held.attempt)),
        None => error,
    }
}
