//! Stopping in order, and stopping hard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use uniqueue::{JobState, RunningJob};

use super::{Task, quick};
use crate::support::{Database, WAIT};

#[tokio::test]
async fn a_stop_finishes_what_runs_and_fetches_no_more() {
    let database = Database::new().await;
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let signals = (started.clone(), go_on.clone());
    let work = move |_: RunningJob<Task>| {
        let (started, go_on) = signals.clone();
        async move {
            started.notify_one();
            go_on.acquire().await.unwrap().forget();
        }
    };
    let runner = quick(&database.client).worker(work).start().await.unwrap();
    let running = database.client.insert(Task { n: 1 }).await.unwrap();
    tokio::time::timeout(WAIT, started.notified()).await.unwrap();
    let stopping = tokio::spawn(runner.stop());
    let late = database.client.insert(Task { n: 2 }).await.unwrap();
    // For both, since a fetch that was under way at the stop may have taken the late one, too.
    go_on.add_permits(2);
    tokio::time::timeout(WAIT, stopping).await.unwrap().unwrap().unwrap();
    let running = database.client.job(running.id()).await.unwrap().unwrap();
    assert_eq!(running.state, JobState::Completed);
    let late = database.client.job(late.id()).await.unwrap().unwrap();
    assert_ne!(late.state, JobState::Running);
}

#[tokio::test]
async fn a_stop_that_runs_out_of_time_gives_jobs_back_without_using_up_the_attempt() {
    let database = Database::new().await;
    let started = Arc::new(Notify::new());
    let signal = started.clone();
    let work = move |_: RunningJob<Task>| {
        let started = signal.clone();
        async move {
            started.notify_one();
            std::future::pending::<()>().await;
        }
    };
    let runner = quick(&database.client).stop_timeout(Duration::from_millis(50)).worker(work).start().await.unwrap();
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    tokio::time::timeout(WAIT, started.notified()).await.unwrap();
    tokio::time::timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    let row = database.client.job(job.id()).await.unwrap().unwrap();
    assert_eq!((row.state, row.attempt, row.errors.len()), (JobState::Available, 0, 0));
}

#[tokio::test]
async fn a_stop_under_load_loses_no_attempt_and_no_result() {
    let database = Database::new().await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let work = move |_: RunningJob<Task>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {}
    };
    database.client.insert_many((0..2000).map(|n| Task { n })).await.unwrap();
    let runner = quick(&database.client).worker(work).start().await.unwrap();
    while runs.load(Ordering::SeqCst) < 300 {
        tokio::task::yield_now().await;
    }
    runner.stop().await.unwrap();
    let completed =
        database.number("SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1").await;
    let waiting = database.number("SELECT count(*) FROM {schema}.job WHERE state = 'available' AND attempt = 0").await;
    assert_eq!(completed, i64::from(runs.load(Ordering::SeqCst)));
    assert_eq!(completed + waiting, 2000);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_somebodys_lock_longer_than_it_was_told() {
    let database = Database::new().await;
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let signals = (started.clone(), go_on.clone());
    let work = move |_: RunningJob<Task>| {
        let (started, go_on) = signals.clone();
        async move {
            started.notify_one();
            go_on.notified().await;
        }
    };
    let runner = quick(&database.client).stop_timeout(Duration::from_millis(200)).worker(work).start().await.unwrap();
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    tokio::time::timeout(WAIT, started.notified()).await.unwrap();
    let mut open = database.pool().begin().await.unwrap();
    let lock = database.sql("SELECT id FROM {schema}.job FOR UPDATE");
    sqlx::query(lock).execute(&mut *open).await.unwrap();
    go_on.notify_one();
    tokio::time::timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    open.commit().await.unwrap();
    // The result is lost and the job is not: it has no runner any more, so the next one rescues it.
    let row = database.client.job(job.id()).await.unwrap().unwrap();
    assert_eq!(row.state, JobState::Running);
    let next = quick(&database.client).lease(Duration::from_secs(1)).worker(|_: RunningJob<Task>| async {});
    let next = next.start().await.unwrap();
    let row = super::until(&database, job.id(), JobState::Completed).await;
    assert_eq!(row.attempt, 2);
    next.stop().await.unwrap();
}
