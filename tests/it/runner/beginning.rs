//! How jobs begin: many one after another in one task, and none held up by another.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use uniqueue::{JobState, NewJob, Runner, RunningJob, UniqueKey, UniquePolicy};

use super::{Task, quick, until};
use crate::support::{Database, WAIT};

/// Works as many jobs as there are slots, each of which blocks its thread until all of them are there.
async fn all_block_at_once(slots: u32, block: fn(&dyn Fn())) {
    let database = Database::new().await;
    let here = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&here);
    let worker = move |_: RunningJob<Task>| {
        let here = Arc::clone(&counted);
        async move {
            block(&|| {
                let begun = Instant::now();
                here.fetch_add(1, Ordering::SeqCst);
                while here.load(Ordering::SeqCst) < slots {
                    assert!(begun.elapsed() < WAIT, "another job was not begun");
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
    };
    let jobs: Vec<_> = (0..slots).map(|n| NewJob::from(Task { n })).collect();
    let jobs = database.client.insert_many(jobs).await.unwrap();
    let runner = Runner::new(database.client.clone()).queue("default", slots as usize).worker(worker);
    let runner = runner.start().await.unwrap();
    for job in jobs {
        assert_eq!(until(&database, job.id(), JobState::Completed).await.attempt, 1);
    }
    runner.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 5)]
async fn work_that_blocks_its_thread_holds_up_no_job_while_there_are_threads() {
    all_block_at_once(3, |wait| wait()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_blocks_in_place_holds_up_no_job() {
    all_block_at_once(8, |wait| tokio::task::block_in_place(wait)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn of_quick_jobs_and_slow_ones_never_more_run_at_once_than_there_are_slots() {
    const JOBS: u32 = 3_000;
    const SLOTS: u32 = 7;
    let database = Database::new().await;
    let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let seen = (Arc::clone(&running), Arc::clone(&most));
    let worker = move |job: RunningJob<Task>| {
        let (running, most) = seen.clone();
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            match job.args.n % 8 {
                0 => tokio::task::yield_now().await,
                1 => tokio::time::sleep(Duration::from_micros(u64::from(job.args.n % 500))).await,
                2 => assert_eq!(running.fetch_sub(1, Ordering::SeqCst), 0, "unlucky"),
                _ => {}
            }
            running.fetch_sub(1, Ordering::SeqCst);
        }
    };
    database.client.insert_many((0..JOBS).map(|n| NewJob::from(Task { n }).max_attempts(1))).await.unwrap();
    let runner = Runner::new(database.client.clone()).queue("default", SLOTS as usize).worker(worker);
    let runner = runner.start().await.unwrap();
    let left = "SELECT count(*) FROM {schema}.job WHERE finalized_at IS NULL";
    let begun = Instant::now();
    while database.number(left).await > 0 {
        assert!(begun.elapsed() < 3 * WAIT, "{} jobs are left", database.number(left).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    runner.stop().await.unwrap();
    let most = most.load(Ordering::SeqCst);
    assert!((2..=SLOTS).contains(&most), "{most} at once");
    let ended = "SELECT count(*) FROM {schema}.job WHERE attempt = 1 AND state IN ('completed', 'discarded')";
    assert_eq!(database.number(ended).await, i64::from(JOBS));
}

#[tokio::test]
async fn results_of_different_attempts_count_in_one_batch() {
    const JOBS: u32 = 300;
    let database = Database::new().await;
    let jobs = database.client.insert_many((0..JOBS).map(|n| Task { n })).await.unwrap();
    database.execute("UPDATE {schema}.job SET attempt = (args ->> 'n')::integer % 3").await;
    let runner = quick(&database.client).worker(async |_: RunningJob<Task>| ()).start().await.unwrap();
    for (n, job) in (0..).zip(&jobs) {
        assert_eq!(until(&database, job.id(), JobState::Completed).await.attempt, n % 3 + 1);
    }
    runner.stop().await.unwrap();
}

/// What is usual in a job is not sent with it, and what is not, is.
#[tokio::test]
async fn a_worker_has_every_column_of_its_job_however_unusual() {
    let database = Database::new().await;
    let (sent, mut rows) = tokio::sync::mpsc::unbounded_channel();
    let worker = move |job: RunningJob<Task>| {
        let sent = sent.clone();
        async move {
            let stored = job.client().job(job.id()).await.unwrap().unwrap();
            sent.send((json!(job.row()), json!(stored))).unwrap();
        }
    };
    let task = |n| NewJob::from(Task { n });
    let dated = UniquePolicy::new().by_args().ttl(Duration::from_secs(3_600));
    let jobs = [
        task(0),
        task(1).priority(-3),
        task(2).max_attempts(26),
        task(3).meta("a", json!({"b": [1.5, null]})),
        task(4).scheduled_at(time::OffsetDateTime::now_utc() - time::Duration::HOUR),
        task(5).unique_key(UniqueKey::raw("five")),
        task(6).unique(dated),
        task(7).unique(UniquePolicy::new().by_args().until_start()),
        task(8).queue("other"),
        task(9),
        task(10),
    ];
    let count = jobs.len();
    let jobs = database.client.insert_many(jobs).await.unwrap();
    let left = |column: &str, id| format!("UPDATE {{schema}}.job SET {column} WHERE id = '{id}'");
    let errors = r#"errors = '[{"attempt": 1, "at": "2026-01-02T03:04:05Z", "error": "no"}]', attempt = 1"#;
    database.execute(&left(errors, jobs[9].id())).await;
    database.execute(&left("progress = '50', output = '{\"a\": 1}'", jobs[10].id())).await;
    let runner = quick(&database.client).queue("other", 10).worker(worker).start().await.unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..count {
        let (row, stored) = tokio::time::timeout(WAIT, rows.recv()).await.unwrap().unwrap();
        assert_eq!(row, stored);
        seen.insert(row["args"]["n"].as_u64());
    }
    assert_eq!(seen.len(), count);
    runner.stop().await.unwrap();
}
