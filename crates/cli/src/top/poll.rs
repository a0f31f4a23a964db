//! Snapshots of the database, taken at an interval.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uniqueue::Client;
use uniqueue_admin::Admin;

use super::lists;
use super::state::{Snapshot, Update};
use crate::output;

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
