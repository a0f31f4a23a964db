//! A transaction that was left open on a pooled connection must not lose an acknowledged insert.

use support::leave_open;
use support::prelude::*;

/// Inserts in every way that has no transaction of the caller's, each over a poisoned connection.
async fn inserts_are_committed(database: &Database, client: &Client) {
    let mut ids = Vec::new();
    leave_open(client.pool()).await;
    ids.push(client.insert(job("a")).await.unwrap().id());
    leave_open(client.pool()).await;
    ids.push(client.insert(job("a").unique_key(UniqueKey::raw("k"))).await.unwrap().id());
    leave_open(client.pool()).await;
    ids.extend(client.insert_many([job("a"), job("b")]).await.unwrap().iter().map(uniqueue::Inserted::id));
    leave_open(client.pool()).await;
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
    let client = database.builder().max_connections(1).connect(&database.url).await.unwrap();
    inserts_are_committed(&database, &client).await;
    // The pool hands the application itself no such connection either.
    leave_open(client.pool()).await;
    let mut connection = client.pool().acquire().await.unwrap();
    let mut times: Vec<time::OffsetDateTime> = Vec::new();
    for _ in 0..2 {
        times.push(sqlx::query("SELECT now()").fetch_one(&mut *connection).await.unwrap().get(0));
    }
    assert_ne!(times[0], times[1], "now() stands still in a transaction");
}

#[support::test]
async fn inserts_over_a_pool_of_the_applications_survive_a_dropped_begin(database: Database) {
    let client = database.client_at(&database.url, 1).await;
    inserts_are_committed(&database, &client).await;
}

#[support::test]
async fn inserts_over_a_pool_with_a_failed_transaction_left_open_go_through(database: Database) {
    let client = database.client_at(&database.url, 1).await;
    let mut connection = client.pool().acquire().await.unwrap();
    sqlx::raw_sql("BEGIN").execute(&mut *connection).await.unwrap();
    sqlx::raw_sql("SELECT 1 / 0").execute(&mut *connection).await.unwrap_err();
    drop(connection);
    let id = client.insert(job("a")).await.unwrap().id();
    assert!(database.client.job(id).await.unwrap().is_some());
}
