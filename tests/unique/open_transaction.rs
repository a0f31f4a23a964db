//! A transaction that was left open on a pooled connection must not lose an acknowledged insert.

use std::future::poll_fn;
use std::task::Poll;

use support::prelude::*;

/// Leaves an open transaction in a pool of one connection, as a dropped future of sqlx's `begin` does.
async fn poison(pool: &PgPool) {
    let mut connection = pool.acquire().await.unwrap();
    loop {
        let mut begin = Box::pin(sqlx::Connection::begin(&mut *connection));
        // Once in a while the answer is there at once, and there is nothing to drop.
        if !poll_fn(|context| Poll::Ready(begin.as_mut().poll(context).is_ready())).await {
            break;
        }
    }
}

/// Inserts in every way that has no transaction of the caller's, each over a poisoned connection.
async fn inserts_are_committed(database: &Database, client: &Client) {
    let mut ids = Vec::new();
    poison(client.pool()).await;
    ids.push(client.insert(job("a")).await.unwrap().id());
    poison(client.pool()).await;
    ids.push(client.insert(job("a").unique_key(UniqueKey::raw("k"))).await.unwrap().id());
    poison(client.pool()).await;
    ids.extend(client.insert_many([job("a"), job("b")]).await.unwrap().iter().map(uniqueue::Inserted::id));
    poison(client.pool()).await;
    let mut shared = JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        shared.spawn(async move { client.insert(job("a")).await.unwrap().id() });
    }
    ids.extend(shared.join_all().await);
    for id in &ids {
        assert!(database.client.job(*id).await.unwrap().is_some(), "acknowledged, and not there: {id}");
    }
    assert_eq!(ids.len(), 24);
}

#[support::test]
async fn inserts_over_the_clients_own_pool_survive_a_dropped_begin(database: Database) {
    let builder = Client::builder().schema(database.client.schema().clone()).max_connections(1);
    let client = builder.connect(&database.url).await.unwrap();
    inserts_are_committed(&database, &client).await;
    // The pool hands the application itself no such connection either.
    poison(client.pool()).await;
    let mut connection = client.pool().acquire().await.unwrap();
    let mut times: Vec<time::OffsetDateTime> = Vec::new();
    for _ in 0..2 {
        times.push(sqlx::query("SELECT now()").fetch_one(&mut *connection).await.unwrap().get(0));
    }
    assert_ne!(times[0], times[1], "now() stands still in a transaction");
}

#[support::test]
async fn inserts_over_a_pool_of_the_applications_survive_a_dropped_begin(database: Database) {
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(WAIT).connect(&database.url).await.unwrap();
    let client = Client::builder().schema(database.client.schema().clone()).pool(pool);
    inserts_are_committed(&database, &client).await;
}

#[support::test]
async fn inserts_over_a_pool_with_a_failed_transaction_left_open_go_through(database: Database) {
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(WAIT).connect(&database.url).await.unwrap();
    let mut connection = pool.acquire().await.unwrap();
    sqlx::raw_sql("BEGIN").execute(&mut *connection).await.unwrap();
    sqlx::raw_sql("SELECT 1 / 0").execute(&mut *connection).await.unwrap_err();
    drop(connection);
    let client = Client::builder().schema(database.client.schema().clone()).pool(pool);
    let id = client.insert(job("a")).await.unwrap().id();
    assert!(database.client.job(id).await.unwrap().is_some());
}
