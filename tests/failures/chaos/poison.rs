//! Poison: jobs that kill their process. They are discarded, and their neighbours are not.

use support::prelude::*;
use support::work::UNTIL_GO;

const LEASE: Duration = Duration::from_secs(1);

fn order(database: &Database, concurrency: usize) -> Order {
    Order { concurrency, lease: LEASE, ..Order::new(&database.url, &database.schema, "supervised") }
}

fn jobs(deed: Deed, millis: u64, count: usize) -> impl Iterator<Item = NewJob> {
    (0..count).map(move |_| NewJob::from(Work { deed, millis }))
}

/// Runs a process until every job is final, and starts it again after each death. Answers how often it died.
async fn work_off(database: &Database, order: &Order) -> usize {
    let (mut deaths, mut left, mut since) = (0, i64::MAX, Instant::now());
    let mut process = RunnerProcess::start(order);
    loop {
        let now = database.number("SELECT count(*) FROM {schema}.job WHERE finalized_at IS NULL").await;
        if now == 0 {
            return deaths;
        }
        if process.has_ended() {
            process = RunnerProcess::start(order);
            deaths += 1;
        }
        if now != left {
            (left, since) = (now, Instant::now());
        }
        assert!(since.elapsed() < 2 * WAIT, "{left} jobs are left after {deaths} deaths");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Every poison job is discarded for its crashes, and every other job is completed.
async fn assert_only_poison_is_discarded(database: &Database) {
    let wrong = "SELECT count(*) FROM {schema}.job
        WHERE state <> CASE WHEN args ->> 'deed' = 'abort' THEN 'discarded' ELSE 'completed' END::{schema}.job_state";
    assert_eq!(database.number(wrong).await, 0, "an innocent was discarded");
    let blamed = "SELECT count(*) FROM {schema}.job
        WHERE state = 'discarded' AND errors -> -1 ->> 'error' NOT LIKE '%died % times in a row%'";
    assert_eq!(database.number(blamed).await, 0);
}

#[support::test]
async fn a_poison_job_is_discarded_and_the_jobs_that_ran_beside_it_are_not(database: Database) {
    let jobs = jobs(Deed::Plain, 300, 19).chain(jobs(Deed::Abort, 0, 1)).map(|job| job.max_attempts(5));
    database.client.insert_many(jobs).await.unwrap();
    let deaths = work_off(&database, &order(&database, 20)).await;
    assert_only_poison_is_discarded(&database).await;
    assert_eq!(deaths, 3);
}

#[support::test]
async fn one_poison_job_among_very_many_quick_ones_is_discarded_alone(database: Database) {
    let half = soak(1_000, 50_000);
    let jobs = jobs(Deed::Plain, 0, half).chain(jobs(Deed::Abort, 0, 1)).chain(jobs(Deed::Plain, 0, half));
    database.client.insert_many(jobs).await.unwrap();
    work_off(&database, &order(&database, 50)).await;
    assert_only_poison_is_discarded(&database).await;
}

#[support::test]
async fn a_kind_that_is_all_poison_does_not_take_the_healthy_one_beside_it_with_it(database: Database) {
    let healthy = jobs(Deed::Plain, 20, 60).map(|job| job.max_attempts(2));
    let poison = jobs(Deed::Abort, 5, soak(3, 8));
    // Poison every few jobs.
    let (mut healthy, mut mixed) = (healthy.collect::<Vec<_>>(), Vec::new());
    for poison in poison {
        mixed.extend(healthy.drain(..6));
        mixed.push(poison);
    }
    mixed.append(&mut healthy);
    database.client.insert_many(mixed).await.unwrap();
    work_off(&database, &order(&database, 10)).await;
    assert_only_poison_is_discarded(&database).await;
}

/// Lets each job of a deed have crashed so often.
async fn crashed(database: &Database, deed: &str, crashes: i16) {
    let crashed = format!("UPDATE {{schema}}.job SET crashes = {crashes} WHERE args ->> 'deed' = '{deed}'");
    database.execute(&crashed).await;
}

#[support::test]
async fn a_suspect_that_runs_beside_a_poison_job_is_not_discarded_for_it(database: Database) {
    // The suspect waits two seconds for the poison job, and is started after it.
    let jobs = jobs(Deed::Plain, 6_000, 1).chain(jobs(Deed::Abort, 4_000, 1)).map(|job| job.max_attempts(2));
    database.client.insert_many(jobs).await.unwrap();
    crashed(&database, "plain", 2).await;
    let deaths = work_off(&database, &order(&database, 10)).await;
    assert_only_poison_is_discarded(&database).await;
    assert_eq!(deaths, 3);
}

#[support::test]
async fn a_suspect_that_is_to_run_alone_waits_for_results_that_are_not_recorded(database: Database) {
    let jobs = jobs(Deed::Plain, UNTIL_GO, 1).chain(jobs(Deed::Abort, 0, 1));
    database.client.insert_many(jobs).await.unwrap();
    crashed(&database, "abort", 2).await;
    let working = async {
        let deaths = work_off(&database, &order(&database, 2)).await;
        assert_only_poison_is_discarded(&database).await;
        deaths
    };
    let locking = async {
        let running = "SELECT count(*) FROM {schema}.job WHERE args ->> 'deed' = 'plain' AND state = 'running'";
        database.until(running, 1).await;
        let mut open = database.pool().begin().await.unwrap();
        let lock = "SELECT FROM {schema}.job WHERE args ->> 'deed' = 'plain' FOR UPDATE";
        sqlx::query(database.sql(lock)).execute(&mut *open).await.unwrap();
        database.execute("CREATE TABLE {schema}.go ()").await;
        // Its slot is free for a part of this time, and its result waits for the lock.
        tokio::time::sleep(Duration::from_millis(800)).await;
        open.commit().await.unwrap();
    };
    let (deaths, ()) = tokio::join!(working, locking);
    assert_eq!(deaths, 1);
}

#[tokio::test]
async fn a_job_that_kills_after_the_first_trial_is_discarded_by_a_longer_one() {
    if !soak(false, true) {
        return;
    }
    let database = Database::new().await;
    // The others start after the first ten seconds.
    let jobs = jobs(Deed::Abort, 12_000, 1).chain(jobs(Deed::Plain, 200, 500));
    database.client.insert_many(jobs).await.unwrap();
    crashed(&database, "abort", 2).await;
    let deaths = work_off(&database, &order(&database, 2)).await;
    assert_only_poison_is_discarded(&database).await;
    assert_eq!(deaths, 2);
}

#[support::test]
async fn a_kill_of_a_healthy_process_uses_up_no_attempt_and_all_is_worked_soon_after(database: Database) {
    database.client.insert_many(jobs(Deed::Plain, 0, soak(10_000, 50_000))).await.unwrap();
    let order = order(&database, 50);
    let mut victim = RunnerProcess::start(&order);
    let began = Instant::now();
    // More than run: the others are fetched ahead.
    while database.number("SELECT count(*) FROM {schema}.job WHERE state = 'running'").await <= 100 {
        assert!(began.elapsed() < WAIT, "nothing is fetched ahead");
    }
    victim.kill();
    // The server finishes the statements that the process had sent.
    let busy = "SELECT count(*) FROM pg_stat_activity
        WHERE state = 'active' AND datname = current_database() AND pid <> pg_backend_pid()";
    eventually!(database.number(busy).await == 0, "a statement of the killed process does not end");
    let lost = database.number("SELECT count(*) FROM {schema}.job WHERE state = 'running'").await;
    let killed = Instant::now();
    work_off(&database, &order).await;
    println!("{lost} jobs were lost and all worked after {:.1?}", killed.elapsed());
    assert!(lost > 0);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE crashes > 0").await, lost);
    let wrong = "SELECT count(*) FROM {schema}.job WHERE state <> 'completed' OR attempt <> 1 OR crashes > 1";
    assert_eq!(database.number(wrong).await, 0, "an attempt was used up");
    assert!(killed.elapsed() < MINUTE, "{:?}", killed.elapsed());
}

#[support::test]
async fn a_job_with_one_attempt_is_neither_fetched_ahead_nor_started_twice(database: Database) {
    let jobs =
        jobs(Deed::Plain, 0, 3_000).enumerate().map(|(n, job)| if n % 2 == 0 { job.max_attempts(1) } else { job });
    database.client.insert_many(jobs).await.unwrap();
    let order = order(&database, 10);
    let running = "SELECT count(*) FROM {schema}.job WHERE state = 'running' AND max_attempts = 1";
    for _ in 0..3 {
        let mut victim = RunnerProcess::start(&order);
        let began = Instant::now();
        loop {
            let running = database.number(running).await;
            assert!(running <= 10, "{running} are fetched for 10 slots");
            if running > 0 || database.number("SELECT count(*) FROM {schema}.job WHERE state = 'available'").await == 0
            {
                break;
            }
            assert!(began.elapsed() < WAIT, "nothing runs");
        }
        victim.kill();
        // What the dead process had.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let lost = database.number(running).await;
        assert!(lost <= 10, "{lost} were in the hands of a process with 10 slots");
        database.until("SELECT count(*) FROM {schema}.runner WHERE leased_until > now()", 0).await;
    }
    work_off(&database, &order).await;
    let twice = "SELECT count(*) FROM {schema}.job WHERE max_attempts = 1 AND run > 1";
    assert_eq!(database.number(twice).await, 0, "a job was started twice");
    let wrong = "SELECT count(*) FROM {schema}.job WHERE state <> 'completed' AND NOT (max_attempts = 1
        AND errors -> -1 ->> 'error' LIKE '%a job with one attempt is not started again')";
    assert_eq!(database.number(wrong).await, 0);
}
