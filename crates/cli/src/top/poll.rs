//! Snapshots of the database, taken at an interval.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::lists;
use super::state::{Action, Snapshot, Update};
use crate::prelude::*;

/// How long a snapshot may take. After that it is taken anew, and the screen reports it.
pub(super) const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest number of rows of a list.
const ROW_LIMIT: u32 = 200;

/// The largest number of rows of the list of keys, which is in the order of the keys.
const KEY_LIMIT: u32 = 100;

/// Sends snapshots until it is cancelled. It takes one at a time, so a slow database gets no more queries.
pub(super) async fn poll(client: Client, interval: Duration, updates: mpsc::Sender<Update>, ended: CancellationToken) {
    loop {
        let taken = tokio::select! {
            () = ended.cancelled() => return,
            taken = timeout(QUERY_TIMEOUT, snapshot(&client)) => taken,
        };
        let update = match taken {
            Ok(Ok(snapshot)) => Update::Snapshot(Box::new(snapshot)),
            Ok(Err(error)) => Update::SnapshotFailed(one_line(&error.to_string())),
            Err(_) => Update::SnapshotFailed(format!("no answer within {}", output::format_duration(QUERY_TIMEOUT))),
        };
        if updates.send(update).await.is_err() {
            return;
        }
        tokio::select! {
            () = ended.cancelled() => return,
            () = sleep(interval) => {}
        }
    }
}

async fn snapshot(client: &Client) -> uniqueue::Result<Snapshot> {
    let (began, admin) = (Instant::now(), Admin::new(client));
    let stats = admin.stats().sample(1).await?;
    let queues = admin.queues().await?;
    let groups = admin.groups().limit(ROW_LIMIT).await?;
    let has_all_groups = groups.len() < ROW_LIMIT as usize;
    let running = admin.running_jobs().limit(ROW_LIMIT).await?;
    let failing = admin.failing_kinds().await?;
    let keys = admin.claims().limit(KEY_LIMIT).await?;
    let waiting = admin.waiting_inserts().await?;
    let now = stats.asked_at;
    Ok(Snapshot {
        clock: format!("{:02}:{:02}:{:02} UTC", now.hour(), now.minute(), now.second()),
        took: began.elapsed(),
        runners: stats.runners,
        inserted: stats.rates.inserted,
        completed: stats.rates.completed,
        failed: stats.rates.failed,
        lists: [
            lists::queues(&queues, &groups, has_all_groups),
            lists::running(&running),
            lists::failing(&failing, now),
            lists::keys(&keys),
            lists::waiting(&waiting),
            lists::groups(&groups, now),
        ],
    })
}

/// Joins the lines of an error and its hint.
pub(super) fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join("; ")
}

/// Runs an action and sends its result.
pub(super) async fn act(client: Client, action: Action, updates: mpsc::Sender<Update>) {
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
