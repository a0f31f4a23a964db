//! Runtimes that end, callers that give up, and connections that fail.

use uniqueue::Result;

use super::{at_once, keyed};
use support::prelude::*;

#[support::test(with_connections(1))]
async fn an_insert_outlives_the_runtime_that_was_to_send_it(database: Database) {
    let held = database.pool().acquire().await.unwrap();
    let other = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    // Both statements that may be on the way are that runtime's, and wait for the connection.
    for _ in 0..2 {
        let client = database.client.clone();
        other.spawn(async move { client.insert(job("a")).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let insert = inserting(&database.client, keyed("k"));
    tokio::task::yield_now().await;
    other.shutdown_background();
    drop(held);
    assert!(!timeout(WAIT, insert).await.expect("an answer").unwrap().unwrap().duplicate);
}

#[support::test]
async fn a_caller_that_gives_up_takes_nobody_with_it(database: Database, client: &Client) {
    let mut given_up = Vec::new();
    let mut others = JoinSet::new();
    for n in 0..40 {
        let client = client.clone();
        let insert = async move { client.insert(keyed(&n.to_string())).await };
        if n % 2 == 0 {
            given_up.push(tokio::spawn(insert));
        } else {
            others.spawn(insert);
        }
    }
    tokio::task::yield_now().await;
    given_up.iter().for_each(tokio::task::JoinHandle::abort);
    let answers = timeout(WAIT, others.join_all()).await.expect("every answer");
    assert_eq!(answers.into_iter().map(Result::unwrap).filter(|answer| !answer.duplicate).count(), 20);
    // And the line goes on.
    assert!(!client.insert(keyed("after")).await.unwrap().duplicate);
}

#[support::test(with_connections(1))]
async fn one_connection_is_enough_and_is_shared_with_others(database: Database) {
    let client = database.client.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let inserting = tokio::spawn({
        let (client, stop) = (client.clone(), stop.clone());
        async move {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                for answer in at_once(&client, (0..20).map(|_| job("a")).collect()).await {
                    answer.unwrap();
                    count += 1;
                }
            }
            count
        }
    });
    for _ in 0..20 {
        timeout(WAIT, database.number("SELECT 1::bigint")).await.expect("a turn");
    }
    stop.store(true, Ordering::Relaxed);
    let count: i64 = timeout(WAIT, inserting).await.unwrap().unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, count);
}

#[support::test(with_connections(2))]
async fn without_a_connection_every_caller_is_told(database: Database) {
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(Duration::from_millis(500));
    let client = database.client_over(pool.connect(&database.url).await.unwrap());
    let _taken = client.pool().acquire().await.unwrap();
    for answer in at_once(&client, (0..5).map(|_| job("a")).collect()).await {
        assert!(matches!(answer, Err(Error::Database(sqlx::Error::PoolTimedOut))), "{answer:?}");
    }
}

#[support::test]
async fn a_statement_that_is_never_answered_holds_up_nobody_else(database: Database) {
    let proxy = Proxy::before(&database.url).await;
    let client = database.builder().connect(&proxy.url()).await.unwrap();
    // On its way for certain: it waits for a lock in the database.
    let lock = database.begin("LOCK TABLE {schema}.job IN SHARE MODE").await;
    let unanswered = inserting(&client, job("a"));
    database.until_waits_for("job").await;
    proxy.freeze();
    lock.rollback().await.unwrap();
    let others = timeout(WAIT, at_once(&client, vec![job("a"), keyed("k")])).await.expect("the others");
    assert!(others.into_iter().all(|answer| answer.is_ok()));
    unanswered.abort();
}

#[support::test]
async fn idle_connections_that_went_silent_hold_up_an_insert_for_two_seconds_at_most(database: Database) {
    let proxy = Proxy::before(&database.url).await;
    let client = database.builder().connect(&proxy.url()).await.unwrap();
    let opened: Vec<_> = [client.pool().acquire().await.unwrap(), client.pool().acquire().await.unwrap()].into();
    drop(opened);
    client.insert(job("a")).await.unwrap();
    proxy.freeze();
    let began = Instant::now();
    let inserting = at_once(&client, vec![job("a"), keyed("k"), job("a"), job("a")]);
    let inserted = timeout(WAIT, inserting).await.expect("an answer");
    assert!(inserted.into_iter().all(|answer| answer.is_ok()));
    // Each of two statements checks one connection. A new one takes its place.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}
