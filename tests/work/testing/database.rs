//! A database for each test.

use std::thread;

use uniqueue::{assert_inserted, assert_not_inserted, testing};

use super::Task;
use support::prelude::*;

#[tokio::test]
async fn tests_do_not_see_each_other() {
    let (one, other) = (testing::Database::new().await.unwrap(), testing::Database::new().await.unwrap());
    one.client().insert(Task { n: 1 }).await.unwrap();
    assert_inserted!(one, Task, count = 1);
    assert_not_inserted!(other, _);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_application_s_own_tables_and_clients_find_the_database() {
    let database = testing::Database::new().await.unwrap();
    sqlx::query("CREATE TABLE account (id bigint PRIMARY KEY)").execute(database.pool()).await.unwrap();
    sqlx::query("INSERT INTO account VALUES (42)").execute(database.pool()).await.unwrap();
    let elsewhere = Client::connect(database.url()).await.unwrap();
    elsewhere.check_schema().await.unwrap();
    elsewhere.insert(Task { n: 1 }).await.unwrap();
    // As it reads in production.
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM uniqueue.job, account WHERE account.id = 42")
        .fetch_one(elsewhere.pool())
        .await
        .unwrap();
    assert_eq!(count, 1);
}

#[tokio::test]
async fn defaults_and_pool_size_are_as_the_builder_says() {
    let defaults = uniqueue::InsertOptions::new().queue("elsewhere");
    let database = testing::Database::with(Client::builder().defaults(defaults).max_connections(1)).await.unwrap();
    let held = database.pool().acquire().await.unwrap();
    assert!(database.pool().try_acquire().is_none());
    drop(held);
    database.client().insert(NewJob::new("a", &json!({}))).await.unwrap();
    assert_inserted!(database, "a", queue = "elsewhere");
}

#[test]
fn many_runtimes_of_both_kinds_share_one_server() {
    let threads: Vec<_> = (0..8)
        .map(|number| {
            thread::spawn(move || {
                let mut builder = if number % 2 == 0 {
                    tokio::runtime::Builder::new_current_thread()
                } else {
                    tokio::runtime::Builder::new_multi_thread()
                };
                builder.enable_all().build().unwrap().block_on(async {
                    let database = testing::Database::new().await.unwrap();
                    database.client().insert(Task { n: number }).await.unwrap();
                    assert_inserted!(database, Task, args = Task { n: number });
                    assert_inserted!(database, _, count = 1);
                });
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[tokio::test]
async fn a_dropped_database_is_gone_even_when_a_test_panics() {
    let database = testing::Database::new().await.unwrap();
    let url = database.url().to_owned();
    let name = url.split('?').next().unwrap().rsplit('/').next().unwrap().to_owned();
    let test = tokio::spawn(async move {
        // In use by the pool, and by a transaction that stays open.
        let _open = database.pool().begin().await.unwrap();
        assert!(database.pool().size() == 0, "as a failed test would");
    });
    assert!(test.await.unwrap_err().is_panic());
    let mut connection = PgConnection::connect(&url.replacen(&format!("/{name}?"), "/postgres?", 1)).await.unwrap();
    // Dropped by a thread of its own, which nothing tells of.
    eventually!(
        {
            let row = sqlx::query("SELECT count(*) FROM pg_database WHERE datname = $1").bind(&name);
            row.fetch_one(&mut connection).await.unwrap().get::<i64, _>(0) == 0
        },
        "{name} is still there"
    );
}
