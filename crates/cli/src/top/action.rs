//! The actions of the screen: changes, and a job in full.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use uniqueue::{Client, JobFilter, JobState};

use super::poll::{QUERY_TIMEOUT, one_line};
use super::state::{Action, Update};
use crate::exit::Failure;
use crate::output;
use crate::own_name::own_name;

/// Runs an action and sends its result.
pub(super) async fn run(client: Client, action: Action, updates: mpsc::Sender<Update>) {
    // A retry of many jobs takes long and reports its progress. Every other action has a time limit.
    let limit = if matches!(action, Action::Retry(_)) { Duration::MAX } else { QUERY_TIMEOUT };
    let result = match timeout(limit, perform(&client, &action, &updates)).await {
        Ok(Ok(update)) => update,
        Ok(Err(failure)) => Update::Notice(one_line(&failure.to_string())),
        Err(_) => {
            let limit = output::format_duration(QUERY_TIMEOUT);
            Update::Notice(format!("no answer within {limit}: the change may have been made"))
        }
    };
    // The receiver is gone after q.
    let _ = updates.send(result).await;
}

async fn perform(client: &Client, action: &Action, updates: &mpsc::Sender<Update>) -> Result<Update, Failure> {
    let notice = match action {
        Action::Pause(queue) => {
            client.queue(queue).pause().actor(own_name()).await?;
            format!("queue {queue} is paused")
        }
        Action::Resume(queue) => {
            client.queue(queue).resume().actor(own_name()).await?;
            format!("queue {queue} is resumed")
        }
        Action::Cancel(job) => match client.cancel(*job).actor(own_name()).await?.len() {
            0 => format!("job {job} was final already, or is gone"),
            _ => format!("job {job} is cancelled"),
        },
        Action::Retry(kind) => return Ok(Update::RetryDone(retry(client, kind, updates).await)),
        Action::List(queue) => return list(client, queue).await,
        Action::Inspect(job) => {
            let Some(row) = client.job(*job).await? else {
                return Ok(Update::Notice(format!("job {job} is gone")));
            };
            let text = serde_json::to_string_pretty(&row)
                .map_err(|error| Failure::environment("cannot write JSON", "report this", error.into()))?;
            return Ok(Update::Text { title: format!("job {job}"), lines: text.lines().map(str::to_owned).collect() });
        }
    };
    Ok(Update::Notice(notice))
}

/// The most jobs of a queue that are listed of each state.
const LISTED: u32 = 50;

/// Lists the jobs of a queue that run, wait or are to be tried again.
async fn list(client: &Client, queue: &str) -> Result<Update, Failure> {
    let now = client.database_time().await?;
    let mut lines = Vec::new();
    for state in [JobState::Running, JobState::Available, JobState::Retryable, JobState::Scheduled] {
        let jobs = client.jobs(JobFilter::new().queue(queue).states(state).oldest_first().limit(LISTED)).await?;
        let is_cut = jobs.len() == LISTED as usize;
        lines.extend(jobs.iter().map(|job| {
            let due = output::format_relative(job.scheduled_at, now);
            format!("{} {:<9} {:>12}  {}  {}", job.id, state, due, job.kind, job.args.get())
        }));
        if is_cut {
            lines.push(format!("… the first {LISTED} that are {state}"));
        }
    }
    if lines.is_empty() {
        return Ok(Update::Notice(format!("queue {queue} has no unfinished job")));
    }
    Ok(Update::Text { title: format!("unfinished jobs of queue {queue}"), lines })
}

/// Retries the jobs of a kind batch by batch, and sends its progress.
async fn retry(client: &Client, kind: &str, updates: &mpsc::Sender<Update>) -> String {
    let filter = JobFilter::new().states([JobState::Discarded, JobState::Retryable]).kind(kind);
    let mut processed = 0;
    // Jobs that are discarded instead, because another job holds their key.
    let discarded = AtomicU64::new(0);
    let change = client.retry(filter).actor(own_name()).on_discarded(|ids| {
        discarded.fetch_add(ids.len() as u64, Ordering::Relaxed);
    });
    let change = change.on_batch(|batch| {
        processed += batch.len() as u64;
        // If the channel is full, the next batch reports the progress.
        let _ = updates.try_send(Update::RetryProgress(processed - discarded.load(Ordering::Relaxed)));
    });
    let result = change.await;
    let discarded = discarded.into_inner();
    let mut notice = format!("made {} of kind {kind} available again", output::counted(processed - discarded, "job"));
    if discarded > 0 {
        notice.push_str(&format!(", {} discarded because another job holds the key", output::count(discarded)));
    }
    match result {
        Ok(_) => notice,
        Err(error) if processed == 0 => one_line(&error.to_string()),
        Err(error) => format!("{notice}, then: {}; r retries the rest", one_line(&error.to_string())),
    }
}
