//! Turns: of those who fetch many jobs of a queue two go on at once, so that no one walks over what the others have in hand.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlx::{PgConnection, Row};
use uniqueue::{JobState, Runner, RunningJob};

use super::{Task, until};
use crate::support::{Database, WAIT};

const COMPLETED: &str = "SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1";

async fn take_turn(database: &Database, connection: &mut PgConnection, patience: &str) -> bool {
    let text = format!("SELECT {{schema}}.take_turn('default', '{patience}')");
    sqlx::query(database.sql(&text)).fetch_one(connection).await.unwrap().get(0)
}

/// Takes both turns of the queue, for as long as the transactions are open.
async fn take_both(database: &Database) -> [sqlx::Transaction<'static, sqlx::Postgres>; 2] {
    let mut both = [database.pool().begin().await.unwrap(), database.pool().begin().await.unwrap()];
    for transaction in &mut both {
        assert!(take_turn(database, transaction, "1 s").await);
        // As of somebody whom the server cannot end.
        sqlx::query("SET LOCAL idle_in_transaction_session_timeout = 0").execute(&mut **transaction).await.unwrap();
    }
    both
}

async fn many(database: &Database, jobs: u32) {
    database.client.insert_many((0..jobs).map(|n| Task { n })).await.unwrap();
}

/// A runner with so many slots.
fn with_slots(database: &Database, slots: usize) -> Runner {
    Runner::new(database.client.clone()).queue("default", slots)
}

#[tokio::test]
async fn two_have_a_turn_at_a_queue_and_a_third_waits_for_either_of_them() {
    let database = Database::new().await;
    let [first, second] = take_both(&database).await;
    let mut third = database.pool().begin().await.unwrap();
    let began = Instant::now();
    assert!(!take_turn(&database, &mut third, "0.1 s").await);
    assert!(began.elapsed() >= Duration::from_millis(100));
    // Nor does one wait that has no patience, or a queue for another.
    assert!(!take_turn(&database, &mut third, "0").await);
    let other = "SELECT {schema}.take_turn('other', '0')::text || current_setting('lock_timeout')";
    assert_eq!(database.text(other).await, "true0");
    let mut waiting = third;
    for ending in [first, second] {
        let ending = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            ending.commit().await.unwrap();
        };
        let came = async { tokio::join!(take_turn(&database, &mut waiting, "1 min"), ending).0 };
        assert!(tokio::time::timeout(WAIT, came).await.unwrap());
        waiting = database.pool().begin().await.unwrap();
    }
}

#[tokio::test]
async fn whoever_stops_in_the_middle_of_a_turn_holds_nobody_up_for_long() {
    let database = Database::new().await;
    let mut frozen = Vec::new();
    for _ in 0..2 {
        let mut transaction = database.pool().begin().await.unwrap();
        assert!(take_turn(&database, &mut transaction, "1 s").await);
        frozen.push(transaction);
    }
    let mut third = database.pool().begin().await.unwrap();
    assert!(take_turn(&database, &mut third, "20 s").await);
}

#[tokio::test]
async fn a_runner_whose_turn_does_not_come_fetches_without() {
    // Under the shorter one the server ends the wait, since no answer would be waited for any more.
    for lease in [1, 2] {
        let database = Database::new().await;
        many(&database, 3_000).await;
        let _both = take_both(&database).await;
        let lease = Duration::from_secs(lease);
        let runner = with_slots(&database, 2_000).lease(lease).worker(|_: RunningJob<Task>| async {});
        let runner = runner.start().await.unwrap();
        database.until(COMPLETED, 3_000).await;
        runner.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_turn() {
    let database = Database::new().await;
    many(&database, 3_000).await;
    let both = take_both(&database).await;
    let runner = with_slots(&database, 2_000).lease(Duration::from_secs(3600)).worker(|_: RunningJob<Task>| async {});
    let runner = runner.start().await.unwrap();
    let waits = "SELECT count(*) FROM pg_stat_activity AS a
        WHERE a.wait_event_type = 'Lock' AND a.wait_event = 'advisory' AND a.query LIKE '%{schema}%take_turn%'";
    let began = Instant::now();
    while database.number(waits).await == 0 {
        assert!(began.elapsed() < WAIT, "it takes no turn");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let began = Instant::now();
    runner.stop().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE state = 'available'").await, 3_000);
    drop(both);
}

#[tokio::test]
async fn few_jobs_are_fetched_without_a_turn() {
    let database = Database::new().await;
    let _both = take_both(&database).await;
    let hour = Duration::from_secs(3600);
    let runner = with_slots(&database, 400).lease(hour).worker(|_: RunningJob<Task>| async {});
    let runner = runner.start().await.unwrap();
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    let began = Instant::now();
    until(&database, job.id(), JobState::Completed).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    runner.stop().await.unwrap();
}

#[tokio::test]
async fn many_runners_that_fetch_many_work_each_job_once() {
    const JOBS: u32 = 20_000;
    let database = Database::new().await;
    many(&database, JOBS).await;
    let ran: Arc<Mutex<HashMap<u32, u32>>> = Arc::default();
    let mut runners = Vec::new();
    for _ in 0..4 {
        let ran = Arc::clone(&ran);
        let work = move |job: RunningJob<Task>| {
            *ran.lock().unwrap().entry(job.args.n).or_default() += 1;
            async {}
        };
        runners.push(with_slots(&database, 2_000).worker(work).start().await.unwrap());
    }
    database.until(COMPLETED, i64::from(JOBS)).await;
    for runner in runners {
        runner.stop().await.unwrap();
    }
    let ran = ran.lock().unwrap();
    assert!(ran.len() == JOBS as usize && ran.values().all(|times| *times == 1));
}
