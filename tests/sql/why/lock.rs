//! What a lock on the job's row holds up, and for whom it can be seen.

use support::prelude::*;
use uniqueue_admin::ObstacleCode;

use super::{codes, first, gone, insert, put, runner};

async fn pid(connection: &mut sqlx::PgConnection) -> i32 {
    sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(connection).await.unwrap()
}

fn covering() -> UniqueKey {
    UniqueKey::raw("k").on_conflict(OnConflict::RunAgain)
}

async fn unique(database: &Database) -> JobId {
    put(database, job("a").unique_key(covering())).await
}

#[support::test]
async fn r23_locked_by_a_caller_of_run_again_until_its_transaction_ends(database: Database) {
    runner(&database, "default", 9).await;
    let id = unique(&database).await;
    gone(&database, id, ObstacleCode::Locked).await;
    let mut tx = database.pool().begin().await.unwrap();
    assert!(database.client.insert(job("a").unique_key(covering())).tx(&mut tx).await.unwrap().covered);
    let locked = first(&database, id, ObstacleCode::Locked).await;
    assert_eq!(locked.details["pid"], json!(pid(&mut tx).await));
    assert!(locked.reason.contains("has locked the job, in a transaction open since 2"), "{}", locked.reason);
    assert!(locked.remedy.unwrap().contains("pg_terminate_backend"));
    tx.commit().await.unwrap();
    // Of a transaction that has ended only its number is left in the row.
    gone(&database, id, ObstacleCode::Locked).await;
}

#[support::test(with_connections(8))]
async fn r23_locked_by_several_sessions_until_the_last_of_them_ends(database: Database) {
    runner(&database, "default", 9).await;
    let id = unique(&database).await;
    let mut one = database.pool().begin().await.unwrap();
    let mut two = database.pool().begin().await.unwrap();
    assert!(database.client.insert(job("a").unique_key(covering())).tx(&mut one).await.unwrap().covered);
    assert!(database.client.insert(job("a").unique_key(covering())).tx(&mut two).await.unwrap().covered);
    let locked = first(&database, id, ObstacleCode::Locked).await;
    assert_eq!((&locked.details["pid"], &locked.details["mode"]), (&json!(pid(&mut one).await), &json!("sh")));
    one.rollback().await.unwrap();
    let locked = first(&database, id, ObstacleCode::Locked).await;
    assert_eq!(locked.details["pid"], json!(pid(&mut two).await));
    two.commit().await.unwrap();
    gone(&database, id, ObstacleCode::Locked).await;
}

#[support::test]
async fn r23_locked_by_a_change_that_is_not_committed(database: Database) {
    runner(&database, "default", 9).await;
    let (id, other) = (insert(&database).await, insert(&database).await);
    let mut tx = database.pool().begin().await.unwrap();
    database.client.set_priority([id], 1).tx(&mut tx).await.unwrap();
    assert_eq!(codes(&database, id).await, [ObstacleCode::Locked]);
    gone(&database, other, ObstacleCode::Locked).await;
    tx.rollback().await.unwrap();
    assert_eq!(codes(&database, id).await, [ObstacleCode::Next]);
    // Also one that waits for its time: neither is it made available.
    let late = put(&database, job("a").scheduled_in(std::time::Duration::from_secs(60))).await;
    let mut tx = database.pool().begin().await.unwrap();
    database.client.set_priority([late], 1).tx(&mut tx).await.unwrap();
    assert_eq!(codes(&database, late).await, [ObstacleCode::Scheduled, ObstacleCode::Locked]);
    tx.rollback().await.unwrap();
}

/// A table has the same OID in databases that are copies of one.
#[tokio::test]
async fn r23_a_session_of_another_database_is_not_named() {
    let (database, other) = (Database::new().await, Database::new().await);
    let mut older = other.pool().begin().await.unwrap();
    other.client.insert(job("a")).tx(&mut older).await.unwrap();
    runner(&database, "default", 9).await;
    let id = insert(&database).await;
    let mut tx = database.pool().begin().await.unwrap();
    // The row names the subtransaction, which the locks do not list after its end.
    let lock = "SAVEPOINT one; SELECT FROM {schema}.job FOR UPDATE; RELEASE SAVEPOINT one";
    sqlx::raw_sql(database.sql(lock)).execute(&mut *tx).await.unwrap();
    let locked = first(&database, id, ObstacleCode::Locked).await;
    assert_eq!(locked.details["pid"], json!(pid(&mut tx).await), "{locked:?}");
    assert_eq!(locked.details.get("or"), None, "{locked:?}");
    older.rollback().await.unwrap();
}

#[tokio::test]
async fn r23_locked_by_a_prepared_transaction() {
    let server = Postgres::builder().setting("max_prepared_transactions", "5").start().await.unwrap();
    let database = Database::on(&server).await;
    runner(&database, "default", 9).await;
    let id = insert(&database).await;
    let prepare = "BEGIN; SELECT FROM uniqueue.job FOR UPDATE; PREPARE TRANSACTION 'it''s mine'";
    sqlx::raw_sql(prepare).execute(database.pool()).await.unwrap();
    let locked = first(&database, id, ObstacleCode::Locked).await;
    let sentence = "Prepared transaction \"it's mine\" has locked the job, in a transaction open since 2";
    assert!(locked.reason.starts_with(sentence), "{}", locked.reason);
    let remedy = locked.remedy.unwrap();
    let (_, end) = remedy.split_once(" or ").unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(end.to_owned())).execute(database.pool()).await.unwrap();
    gone(&database, id, ObstacleCode::Locked).await;
    server.stop().await.unwrap();
}
