//! R13: `update` beside other callers and runners.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::Row;
use tokio::sync::Barrier;
use uniqueue::{Client, Job, RunningJob, Update};

use super::updates::updating;
use support::quick;
use support::{Database, soak};

/// A list that grows while it waits.
#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "a")]
struct Items {
    items: Vec<usize>,
}

#[tokio::test]
async fn r13_concurrent_appends_lose_no_item_and_repeat_none() {
    append(false).await;
}

#[tokio::test]
async fn r13_concurrent_appends_lose_no_item_while_a_runner_starts_their_jobs() {
    append(true).await;
}

async fn append(is_worked: bool) {
    let writers = soak(8, 16);
    let each = soak(15, 100);
    let database = Database::with_connections(writers as u32).await;
    let worked = Arc::new(Mutex::new(Vec::new()));
    let runner = if is_worked {
        let worked = Arc::clone(&worked);
        let work = move |job: RunningJob<Items>| {
            worked.lock().unwrap().extend(job.args.items);
            std::future::ready(())
        };
        Some(quick(&database.client).worker(work).start().await.unwrap())
    } else {
        None
    };
    let barrier = Arc::new(Barrier::new(writers));
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (client, barrier) = (database.client.clone(), Arc::clone(&barrier));
            tokio::spawn(async move {
                barrier.wait().await;
                for n in 0..each {
                    let item = json!({"items": [writer * each + n]});
                    // Some in a transaction that is rolled back first.
                    if n % 3 == 0 {
                        let mut tx = client.pool().begin().await.unwrap();
                        client.insert(updating(&item, Update::append().max_items(20))).tx(&mut tx).await.unwrap();
                        tx.rollback().await.unwrap();
                    }
                    client.insert(updating(&item, Update::append().max_items(20))).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let rows = sqlx::query(database.sql("SELECT args FROM {schema}.job")).fetch_all(database.pool()).await.unwrap();
    let mut items = Vec::new();
    for row in rows {
        let args: Value = row.get(0);
        let list: Vec<usize> = serde_json::from_value(args["items"].clone()).unwrap();
        assert!(list.len() <= 20);
        items.extend(list);
    }
    items.sort_unstable();
    assert_eq!(items, (0..writers * each).collect::<Vec<_>>());
    if let Some(runner) = runner {
        database.until("SELECT count(*) FROM {schema}.job WHERE state <> 'completed'", 0).await;
        runner.stop().await.unwrap();
        let mut worked = std::mem::take(&mut *worked.lock().unwrap());
        worked.sort_unstable();
        assert_eq!(worked, items, "each item was worked once");
    }
}

#[support::test]
async fn r13_a_debounced_job_runs_within_max_delay_under_events_that_never_end(database: Database, client: &Client) {
    let max_delay = Duration::from_millis(1_500);
    let event = || updating(&json!({}), Update::latest().push(max_delay)).scheduled_in(Duration::from_millis(700));
    let first = client.insert(event()).await.unwrap().job;
    // Each event comes before the job is due. By the order of their times, the last that moves it cannot move it far.
    loop {
        let answer = client.insert(event()).await.unwrap();
        assert!(answer.updated, "the holder waits, since nothing fetches it");
        assert!(answer.job.scheduled_at <= first.created_at + max_delay);
        if answer.job.scheduled_at < answer.answered_at {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let due = client.job(first.id).await.unwrap().unwrap();
    assert_eq!(due.scheduled_at, first.created_at + max_delay);
}

#[support::test]
async fn r13_a_runner_starts_a_debounced_job_within_max_delay_under_events_that_never_end(database: Database) {
    let client = &database.client;
    let runner = quick(client).worker(|_: RunningJob<Items>| std::future::ready(())).start().await.unwrap();
    let max_delay = Duration::from_millis(1_500);
    let event = json!({"items": [1]});
    let event = || updating(&event, Update::latest().push(max_delay)).scheduled_in(Duration::from_millis(700));
    let first = client.insert(event()).await.unwrap().job;
    let mut starts = 0;
    let started = loop {
        starts += u32::from(!client.insert(event()).await.unwrap().updated);
        if let Some(started) = client.job(first.id).await.unwrap().unwrap().attempted_at {
            break started;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let waited = started - first.created_at;
    assert!(waited >= max_delay && waited < max_delay + soak(1, 3) * Duration::from_secs(1), "it waited for {waited}");
    assert!(starts <= 1, "an event after the start is the next job");
    runner.stop().await.unwrap();
}
