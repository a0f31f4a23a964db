//! The connections of the application's pool: queries of workers, inserts, and the look-ups of a start.

use super::{Cell, LEASE, each, struck};
use support::prelude::*;

/// What the table recommends: a limit for each job.
const JOB_TIMEOUT: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_worker_whose_query_is_struck_fails_or_times_out_and_its_slot_works_on() {
    each(|fault| async move {
        let cell = Cell::new().await;
        let work = async |job: RunningJob<Task>| {
            sqlx::query("SELECT /* the worker's own */ 1").execute(job.client().pool()).await?;
            Ok::<_, BoxError>(())
        };
        let options = WorkerOptions::new().timeout(JOB_TIMEOUT).retry_policy(RetryPolicy::fixed(Duration::ZERO));
        let runner = Runner::new(cell.client.clone()).queue("default", 1).lease(LEASE).worker_with(work, options);
        let runner = runner.start().await.unwrap();
        let strike = cell.proxy.strike("the worker's own", fault);
        cell.insert(5).await;
        struck(strike).await;
        let began = Instant::now();
        cell.completed(5).await;
        let took = began.elapsed();
        // The timeout, its grace of a second, and the wait of the second attempt.
        assert!(took < JOB_TIMEOUT + LEASE, "{fault:?}: {took:?}");
        let failed = cell.database.number("SELECT count(*) FROM {schema}.job WHERE attempt > 1").await;
        assert_eq!(failed, i64::from(fault != Fault::Slow), "{fault:?}");
        runner.stop().await.unwrap();
    })
    .await;
}

#[support::test]
async fn idle_connections_of_a_pool_that_went_silent_hold_up_a_call_for_two_seconds_each(cell: Cell) {
    // The application's own pool, and a client's.
    let own = cell.database.builder().connect(&cell.proxy.url()).await.unwrap();
    for client in [&cell.client, &own] {
        let opened = [client.pool().acquire().await.unwrap(), client.pool().acquire().await.unwrap()];
        drop(opened);
        client.insert(Task { n: 1 }).await.unwrap();
        until_idle(client).await;
        assert!(cell.proxy.freeze() >= 2);
        let began = Instant::now();
        for n in 2..5 {
            timeout(WAIT, client.insert(Task { n }).into_future()).await.expect("an answer").unwrap();
        }
        // Far below the 30 s for which sqlx waits.
        assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    }
}

#[support::test]
async fn an_insert_that_its_caller_gives_up_gives_its_connection_back(cell: Cell) {
    let client = cell.database.client_at(&cell.proxy.url(), 1).await;
    let strike = cell.proxy.strike("INSERT INTO", Fault::Frozen);
    let inserting = tokio::spawn({
        let client = client.clone();
        async move { client.insert(Task { n: 1 }).await }
    });
    struck(strike).await;
    inserting.abort();
    // The pool's only connection is free again, or replaced.
    let again = timeout(2 * WAIT, client.insert(Task { n: 2 })).await.expect("a connection");
    again.unwrap();
}

#[tokio::test]
async fn the_look_up_of_a_start_ends_within_ten_seconds_whatever_strikes_it() {
    each(|fault| async move {
        let cell = Cell::new().await;
        let strike = cell.proxy.strike("The migrations that this schema has seen", fault);
        let began = Instant::now();
        let checked = cell.client.check_schema().await;
        let took = began.elapsed();
        struck(strike).await;
        assert_eq!(checked.is_ok(), fault == Fault::Slow, "{fault:?}: {checked:?}");
        assert!(took < Duration::from_secs(10) + LEASE / 2, "{fault:?}: {took:?}");
        cell.client.check_schema().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_beginning_of_a_migration_ends_within_its_lock_timeout_and_ten_seconds_whatever_strikes_it() {
    each(|fault| async move {
        let database = Database::unmigrated(3).await;
        let proxy = Proxy::before(&database.url).await;
        let client = database.client_at(&proxy.url(), 3).await;
        let strike = proxy.strike("BEGIN ISOLATION LEVEL READ COMMITTED", fault);
        let began = Instant::now();
        let migrated = client.migration().lock_timeout(SECOND).into_future();
        let migrated = timeout(3 * WAIT, migrated).await.expect("an answer");
        let took = began.elapsed();
        struck(strike).await;
        assert_eq!(migrated.is_ok(), fault == Fault::Slow, "{fault:?}: {migrated:?}");
        // A slow connection has many answers to give.
        let limit = SECOND + Duration::from_secs(10) + LEASE / 2;
        assert!(took < limit || fault == Fault::Slow, "{fault:?}: {took:?}");
        client.migrate().await.unwrap();
        client.check_schema().await.unwrap();
    })
    .await;
}

/// Waits until no call holds a connection of the pool.
async fn until_idle(client: &Client) {
    eventually!(client.pool().num_idle() >= client.pool().size() as usize, "{} idle", client.pool().num_idle());
}
