//! `waiting_insert`: the waiting session, the blocking session, and the key where it is visible.

use sqlx::ConnectOptions;
use support::prelude::*;
use tokio::task::JoinHandle;

async fn connection(database: &Database, name: &str) -> PgConnection {
    let options: PgConnectOptions = database.url.parse().unwrap();
    options.application_name(name).connect().await.unwrap()
}

async fn until_waiting(database: &Database, inserts: i64) {
    eventually!(
        database.number("SELECT count(*) FROM {schema}.waiting_insert").await >= inserts,
        "{inserts} inserts do not wait"
    );
}

/// Inserts with key `k` over a connection of its own, by SQL or by Rust.
async fn insert(database: &Database, name: &str, on_conflict: OnConflict) -> JoinHandle<bool> {
    let mut connection = connection(database, name).await;
    let client = database.client.clone();
    tokio::spawn(async move {
        let key = UniqueKey::raw("k").on_conflict(on_conflict);
        client.insert(job("a").unique_key(key)).tx(&mut connection).await.unwrap().duplicate
    })
}

const ROW: &str =
    "SELECT string_agg(concat_ws(' ', application, waits_for, coalesce(unique_key, '?'), blocker_application,
        blocker_state, blocker_query, query ~ 'insert_(batch|one|unique)', waiting_for IS NOT NULL, blocker_open_for >= interval '0',
        pid <> blocker_pid, role_name = blocker_role), '; ' ORDER BY application)
    FROM {schema}.waiting_insert";

#[support::test]
async fn inserts_that_wait_for_an_uncommitted_key_name_the_transaction_that_has_it(database: Database) {
    assert_eq!(database.number("SELECT count(*) FROM {schema}.waiting_insert").await, 0);
    let mut first = connection(&database, "first").await;
    let mut open = first.begin().await.unwrap();
    // Within a savepoint, as a careful caller has it.
    let mut savepoint = open.begin().await.unwrap();
    database.client.insert(job("a").unique_key(UniqueKey::raw("k"))).tx(&mut savepoint).await.unwrap();
    savepoint.commit().await.unwrap();
    sqlx::query("SELECT 42").execute(&mut *open).await.unwrap();
    let second = insert(&database, "second", OnConflict::Ignore).await;
    let third = insert(&database, "third", OnConflict::Ignore).await;
    until_waiting(&database, 2).await;
    assert_eq!(
        database.text(ROW).await,
        "second a key ? first idle in transaction SELECT 42 t t t t t; \
         third a key ? first idle in transaction SELECT 42 t t t t t"
    );
    open.commit().await.unwrap();
    assert!(second.await.unwrap() && third.await.unwrap());
    assert_eq!(database.number("SELECT count(*) FROM {schema}.waiting_insert").await, 0);
}

#[support::test]
async fn inserts_that_wait_for_a_holder_that_is_being_changed_name_its_key_and_who_changes_it(database: Database) {
    let holder = database.client.insert(job("a").unique_key(UniqueKey::raw("k"))).await.unwrap().id();
    let mut first = connection(&database, "first").await;
    let mut open = first.begin().await.unwrap();
    database.client.set_priority([holder], 7).tx(&mut open).await.unwrap();
    sqlx::query("SELECT 42").execute(&mut *open).await.unwrap();
    let second = insert(&database, "second", OnConflict::Replace).await;
    until_waiting(&database, 1).await;
    // It waits behind the second, but for the first.
    let third = insert(&database, "third", OnConflict::Replace).await;
    until_waiting(&database, 2).await;
    assert_eq!(
        database.text(ROW).await,
        "second a job k first idle in transaction SELECT 42 t t t t t; \
         third a job k first idle in transaction SELECT 42 t t t t t"
    );
    assert_eq!(database.text("SELECT min(holder::text) FROM {schema}.waiting_insert").await, holder.to_string());
    open.rollback().await.unwrap();
    assert!(!second.await.unwrap() && !third.await.unwrap());
}

#[support::test]
async fn what_waits_for_other_things_is_no_waiting_insert(database: Database) {
    let id = database.client.insert(job("a")).await.unwrap().id();
    database.execute("CREATE TABLE {schema}.account (id integer PRIMARY KEY)").await;
    let mut first = connection(&database, "first").await;
    let mut open = first.begin().await.unwrap();
    database.client.set_priority([id], 7).tx(&mut open).await.unwrap();
    sqlx::query(database.sql("INSERT INTO {schema}.account VALUES (1)")).execute(&mut *open).await.unwrap();
    // A change that waits for the job, and an application that waits for a row of its own after an insert.
    let client = database.client.clone();
    let cancelling = tokio::spawn(async move { client.cancel([id]).await.unwrap() });
    let mut other = connection(&database, "other").await;
    let (client, text) =
        (database.client.clone(), database.sql("INSERT INTO {schema}.account VALUES (1) ON CONFLICT DO NOTHING"));
    let going_on = tokio::spawn(async move {
        let mut tx = other.begin().await.unwrap();
        client.insert(job("b")).tx(&mut tx).await.unwrap();
        sqlx::query(text).execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
    });
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND datname = current_database()
            AND (query LIKE '%{schema}.account%' OR query LIKE '%\"{schema}\".cancel_jobs%')";
    eventually!(database.number(waiting).await >= 2, "they do not wait");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.waiting_insert").await, 0);
    open.commit().await.unwrap();
    going_on.await.unwrap();
    assert_eq!(cancelling.await.unwrap(), [id]);
}
