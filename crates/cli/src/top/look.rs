//! Asking the database, beside the screen: looks at an interval, and actions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uniqueue::{Client, JobFilter, JobState};

use super::rows::{Failing, Snapshot};
use super::state::Action;
use crate::failure::Failure;
use crate::output;

/// How long a look may take. What comes later is asked anew, and the screen says so.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much of each list is looked at: more than anybody reads.
const ROWS: u32 = 200;

/// What comes back from the database.
#[derive(Debug)]
pub(super) enum News {
    Seen(Box<Snapshot>),
    /// A look failed.
    Trouble(String),
    /// What became of an action.
    Done(String),
    /// How far the retry of a kind is: so many jobs were retried.
    Retrying(u64),
    /// What became of it.
    Retried(String),
    /// A job in full.
    Text {
        title: String,
        lines: Vec<String>,
    },
}

/// Looks again and again until it is cancelled. One look at a time: a slow database is not asked for more.
pub(super) async fn watch(client: Client, interval: Duration, news: mpsc::Sender<News>, ended: CancellationToken) {
    loop {
        let seen = tokio::select! {
            () = ended.cancelled() => return,
            seen = timeout(PATIENCE, look(&client)) => seen,
        };
        let said = match seen {
            Ok(Ok(snapshot)) => News::Seen(Box::new(snapshot)),
            Ok(Err(error)) => News::Trouble(one_line(&error.to_string())),
            Err(_) => News::Trouble(format!("no answer within {}", output::span(PATIENCE))),
        };
        if news.send(said).await.is_err() {
            return;
        }
        tokio::select! {
            () = ended.cancelled() => return,
            () = sleep(interval) => {}
        }
    }
}

async fn look(client: &Client) -> uniqueue::Result<Snapshot> {
    let began = Instant::now();
    let stats = client.stats().sample(1).await?;
    let queues = client.queues().await?;
    let running = client.running_jobs(ROWS).await?;
    let failing = client.failing_kinds().await?;
    let keys = client.claims().limit(100).await?;
    let waiting = client.waiting_inserts().await?;
    let now = stats.asked_at;
    Ok(Snapshot {
        clock: format!("{:02}:{:02}:{:02} UTC", now.hour(), now.minute(), now.second()),
        took: began.elapsed(),
        runners: stats.runners,
        inserted: stats.rates.inserted,
        completed: stats.rates.completed,
        failed: stats.rates.failed,
        queues: queues.iter().map(Into::into).collect(),
        running: running.iter().map(Into::into).collect(),
        failing: failing.iter().map(|kind| Failing::new(kind, now)).collect(),
        keys: keys.iter().map(Into::into).collect(),
        waiting: waiting.iter().map(Into::into).collect(),
    })
}

/// Does what somebody asked for.
pub(super) async fn act(client: Client, action: Action, news: mpsc::Sender<News>) {
    // Of many jobs a retry takes its time: it tells how far it is, where all else has to answer.
    let patience = if matches!(action, Action::Retry(_)) { Duration::MAX } else { PATIENCE };
    let done = match timeout(patience, perform(&client, &action, &news)).await {
        Ok(Ok(done)) => done,
        Ok(Err(failure)) => News::Done(one_line(&failure.to_string())),
        Err(_) => News::Done(format!("no answer within {}: it may be done or not", output::span(PATIENCE))),
    };
    // Nobody hears it who has quit.
    let _ = news.send(done).await;
}

async fn perform(client: &Client, action: &Action, news: &mpsc::Sender<News>) -> Result<News, Failure> {
    let done = match action {
        Action::Pause(queue) => {
            client.queue(queue).pause().await?;
            format!("queue {queue} is paused")
        }
        Action::Resume(queue) => {
            client.queue(queue).resume().await?;
            format!("queue {queue} goes on")
        }
        Action::Cancel(job) => match client.cancel(*job).await?.len() {
            0 => format!("job {job} was final already, or is gone"),
            _ => format!("job {job} is cancelled"),
        },
        Action::Retry(kind) => return Ok(News::Retried(retry(client, kind, news).await)),
        Action::Inspect(job) => {
            let Some(row) = client.job(*job).await? else {
                return Ok(News::Done(format!("job {job} is gone")));
            };
            let text = serde_json::to_string_pretty(&row)
                .map_err(|error| Failure::environment("cannot write JSON", "report this", error.into()))?;
            return Ok(News::Text { title: format!("job {job}"), lines: text.lines().map(str::to_owned).collect() });
        }
    };
    Ok(News::Done(done))
}

/// Retries the jobs of a kind batch by batch, however long all of them take, and tells how far it is.
async fn retry(client: &Client, kind: &str, news: &mpsc::Sender<News>) -> String {
    let filter = JobFilter::new().states([JobState::Discarded, JobState::Retryable]).kind(kind);
    let mut so_far = 0;
    // Those that did not come back, but were discarded: another job holds their key.
    let discarded = AtomicU64::new(0);
    let change = client.retry(filter).on_discarded(|ids| {
        discarded.fetch_add(ids.len() as u64, Ordering::Relaxed);
    });
    let change = change.on_batch(|batch| {
        so_far += batch.len() as u64;
        // Where the screen has more to hear than it can draw, the next batch tells it.
        let _ = news.try_send(News::Retrying(so_far - discarded.load(Ordering::Relaxed)));
    });
    let done = change.await;
    let discarded = discarded.into_inner();
    let mut said = format!("{} of kind {kind} are available again", output::count(so_far - discarded));
    if discarded > 0 {
        said.push_str(&format!(", {} discarded since another job holds their key", output::count(discarded)));
    }
    match done {
        Ok(_) => said,
        Err(error) if so_far == 0 => one_line(&error.to_string()),
        Err(error) => format!("{said}, then: {}; r does the rest", one_line(&error.to_string())),
    }
}

/// An error on one line, with its hint.
fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join("; ")
}
