//! Fetching where much is in the way.

use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;
use tokio::sync::mpsc;
use uniqueue::{Client, NewJob, Runner, RunnerHandle, RunningJob};

use super::Task;
use crate::support::{Database, WAIT};

/// A runner of tasks in a queue with so many jobs of another kind at its head that a walk past them is dear.
async fn past_many(client: &Client, database: &Database) -> (RunnerHandle, mpsc::UnboundedReceiver<u32>) {
    let others = "INSERT INTO {schema}.job (id, kind, priority, scheduled_at)
        SELECT gen_random_uuid(), 'other', n % 3, now() - interval '1 day' FROM generate_series(1, 60000) AS n";
    database.execute(others).await;
    let (worked, works) = mpsc::unbounded_channel();
    let worked = Arc::new(worked);
    let work = move |job: RunningJob<Task>| {
        let worked = worked.clone();
        async move { worked.send(job.args.n).unwrap() }
    };
    let runner = Runner::new(client.clone())
        .queue("default", 100)
        .poll_interval(Duration::from_millis(20))
        .worker(work)
        .start()
        .await
        .unwrap();
    (runner, works)
}

async fn next(works: &mut mpsc::UnboundedReceiver<u32>) -> u32 {
    tokio::time::timeout(WAIT, works.recv()).await.expect("a job worked").unwrap()
}

#[tokio::test]
async fn whatever_appears_behind_where_a_fetch_came_to_is_found_all_the_same() {
    let database = Database::new().await;
    let client = &database.client;
    let (runner, mut works) = past_many(client, &database).await;
    client.insert(Task { n: 0 }).await.unwrap();
    assert_eq!(next(&mut works).await, 0);
    // Committed after jobs that were inserted later.
    let mut tx = client.pool().begin().await.unwrap();
    client.insert(Task { n: 1 }).tx(&mut tx).await.unwrap();
    client.insert(Task { n: 2 }).await.unwrap();
    assert_eq!(next(&mut works).await, 2);
    tx.commit().await.unwrap();
    assert_eq!(next(&mut works).await, 1);
    // Of priorities never seen.
    for (n, priority) in [(3, 5), (4, -5), (5, 1)] {
        client.insert(Task { n }).priority(priority).await.unwrap();
        assert_eq!(next(&mut works).await, n);
    }
    // Of long ago.
    client.insert(Task { n: 6 }).scheduled_at(OffsetDateTime::now_utc() - Duration::from_secs(7_200)).await.unwrap();
    assert_eq!(next(&mut works).await, 6);
    runner.stop().await.unwrap();
}

#[tokio::test]
async fn a_backlog_behind_jobs_for_others_is_worked_at_once_and_once() {
    const JOBS: u32 = 5_000;
    let database = Database::new().await;
    let (runner, mut works) = past_many(&database.client, &database).await;
    let long_ago = OffsetDateTime::now_utc() - Duration::from_secs(7_200);
    let jobs = (0..JOBS).map(|n| NewJob::from(Task { n }).priority((n % 2) as i16).scheduled_at(long_ago));
    database.client.insert_many(jobs).await.unwrap();
    let mut seen: Vec<u32> = Vec::new();
    for _ in 0..JOBS {
        seen.push(next(&mut works).await);
    }
    seen.sort_unstable();
    assert!(seen.iter().copied().eq(0..JOBS));
    runner.stop().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE kind = 'other' AND attempt > 0").await, 0);
}
