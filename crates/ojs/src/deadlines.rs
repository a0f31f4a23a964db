//! Ends attempts that take longer than the `timeout_ms` of their job.
//!
//! One task knows the deadlines of the jobs that this process handed out. Where the process dies, the reservation ends at
//! about the same time, and maintenance takes the job back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use uniqueue::{Client, JobError, JobFilter, JobState};
use uniqueue_remote::{JobResult, JobRun, Remote, Reported};

use crate::reservations::{Held, Runs};

/// The wait before another try, where the database did not answer.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The most runs that end in one statement.
const BATCH: usize = 500;

/// Deadlines of runs, ended by a task that stops when this is dropped.
pub(crate) struct Deadlines {
    sender: mpsc::UnboundedSender<(Instant, JobRun)>,
    _task: AbortOnDropHandle<()>,
}

impl Deadlines {
    pub(crate) fn start(client: Client, runs: Arc<Runs>) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, _task: AbortOnDropHandle::new(tokio::spawn(end_late_runs(client, runs, receiver))) }
    }

    pub(crate) fn add(&self, at: Instant, run: JobRun) {
        // The task ends with this value only.
        let _ = self.sender.send((at, run));
    }
}

async fn end_late_runs(client: Client, runs: Arc<Runs>, mut new: mpsc::UnboundedReceiver<(Instant, JobRun)>) {
    let mut waiting: BTreeMap<(Instant, u64), JobRun> = BTreeMap::new();
    let mut number = 0;
    loop {
        let next = waiting.keys().next().map(|(at, _)| *at);
        let due = async {
            match next {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            added = new.recv() => {
                let Some((at, run)) = added else { return };
                number += 1;
                waiting.insert((at, number), run);
            }
            () = due => {
                let later = waiting.split_off(&(Instant::now(), u64::MAX));
                let late: Vec<_> = std::mem::replace(&mut waiting, later).into_values().collect();
                // A run that was reported, or fetched anew, is not remembered any more.
                let held: Vec<_> = late
                    .into_iter()
                    .filter_map(|run| runs.get(run.id).filter(|held| held.run == run))
                    .collect();
                for batch in held.chunks(BATCH) {
                    let left = end(&client, &runs, batch).await.unwrap_or_else(|error| {
                        tracing::warn!(%error, jobs = batch.len(), "late jobs could not be ended, trying again");
                        batch.iter().map(|held| held.run).collect()
                    });
                    for run in left {
                        number += 1;
                        waiting.insert((Instant::now() + TRY_AGAIN, number), run);
                    }
                }
            }
        }
    }
}

/// Ends late runs. Returns those whose jobs are locked.
async fn end(client: &Client, runs: &Runs, late: &[Held]) -> uniqueue::Result<Vec<JobRun>> {
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
    let (locked, ended): (Vec<_>, Vec<_>) = finished.into_iter().partition(|finished| finished.locked);
    for Reported { run, .. } in ended {
        runs.remove(run);
        tracing::info!(job.id = %run.id, "a job took longer than its timeout_ms");
    }
    Ok(locked.into_iter().map(|finished| finished.run).collect())
}

/// The error with the wait of the job's policy. A job without a policy waits as its kind says.
pub(crate) fn with_delay(error: JobError, held: &Held) -> JobError {
    match held.policy() {
        Some(policy) => error.retry_after(policy.delay(held.attempt)),
        None => error,
    }
}
