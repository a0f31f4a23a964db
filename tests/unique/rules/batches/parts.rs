//! Batches that are sent in several statements.

use std::future::IntoFuture;

use serde_json::json;
use tokio::time::timeout;
use uniqueue::{Error, NewJob, OnConflict, UniqueKey, UniqueScope};

use support::{Database, WAIT, counting_statements, job};

/// A job of nearly a megabyte.
fn large(key: &str, on_conflict: OnConflict) -> NewJob {
    let key = UniqueKey::raw(key).scope(UniqueScope::Active).on_conflict(on_conflict);
    NewJob::new("a", &json!({ "text": "x".repeat(1_000_000) })).unique_key(key)
}

/// Keys in descending order, of two parts.
fn keys() -> Vec<String> {
    (0..18).rev().map(|n| format!("k{n:02}")).collect()
}

#[tokio::test]
async fn r10_a_large_batch_is_sent_in_parts_that_mean_what_one_statement_means() {
    let database = Database::with_connections(2).await;
    let client = &database.client;
    let held = client.insert(large("k09", OnConflict::Ignore)).await.unwrap();
    let mut keys = keys();
    // Equal keys, far from each other in the call.
    keys.push("k17".to_owned());
    keys.push("k00".to_owned());
    let batch = || keys.iter().map(|key| large(key, OnConflict::Ignore)).chain([job("plain")]);
    let mut tx = database.pool().begin().await.unwrap();
    let (answers, statements) = counting_statements(client.insert_many(batch()).tx(&mut tx).into_future()).await;
    let answers = answers.unwrap();
    assert!(statements > 1, "{statements}");
    for (answer, key) in answers.iter().zip(&keys) {
        assert_eq!(answer.job.unique_key.as_ref(), Some(key));
    }
    let duplicates: Vec<_> = (0..answers.len()).filter(|n| answers[*n].duplicate).collect();
    assert_eq!(duplicates, [8, 18, 19]);
    assert_eq!((answers[8].id(), answers[18].id(), answers[19].id()), (held.id(), answers[0].id(), answers[17].id()));
    tx.commit().await.unwrap();
    let new: Vec<_> = answers.iter().filter(|answer| !answer.duplicate).map(|answer| answer.id().to_string()).collect();
    let worked =
        "SELECT string_agg(id::text, ' ' ORDER BY priority DESC, scheduled_at, id) FROM {schema}.job WHERE id <> ";
    assert_eq!(database.text(&format!("{worked}'{}'", held.id())).await, new.join(" "));
}

#[tokio::test]
async fn r10_a_large_batch_that_is_rejected_inserts_nothing_of_any_part() {
    let database = Database::with_connections(3).await;
    let client = &database.client;
    let last = client.insert(large("k17", OnConflict::Ignore)).await.unwrap();
    let first = client.insert(large("k00", OnConflict::Ignore)).await.unwrap();
    let batch = || keys().into_iter().map(|key| large(&key, OnConflict::Reject)).collect::<Vec<_>>();
    let mut tx = database.pool().begin().await.unwrap();
    let mut autocommit = database.pool().acquire().await.unwrap();
    for answer in [
        client.insert_many(batch()).tx(&mut tx).await,
        client.insert_many(batch()).tx(&mut autocommit).await,
        client.insert_many(batch()).await,
    ] {
        let Err(Error::Rejected(rejections)) = answer else { panic!("{answer:?}") };
        let named: Vec<_> = rejections.iter().map(|one| (one.index, one.holder)).collect();
        assert_eq!(named, [(0, Some(last.id())), (17, Some(first.id()))]);
    }
    client.insert(job("after")).tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 3);
}

#[tokio::test]
async fn r10_large_batches_in_opposed_orders_never_deadlock() {
    let database = Database::slow_to_see_deadlocks(4).await;
    let inserts = [keys(), keys().into_iter().rev().collect()].map(|keys| {
        let client = database.client.clone();
        tokio::spawn(async move {
            client.insert_many(keys.iter().map(|key| large(key, OnConflict::Ignore))).await.unwrap();
        })
    });
    for insert in inserts {
        timeout(3 * WAIT, insert).await.expect("no deadlock").unwrap();
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 18);
}

#[support::test]
async fn r10_what_cannot_be_divided_is_refused_above_64_mb(database: Database) {
    let parent = database.client.insert(job("parent")).await.unwrap().id();
    let graph = (0..70).map(|n| large(&format!("k{n}"), OnConflict::Ignore).after(parent));
    let error = database.client.insert_many(graph).await.unwrap_err().to_string();
    assert!(error.starts_with("invalid after: ") && error.contains("64 MB"), "{error}");
    let insert = "SELECT {schema}.insert_jobs(jsonb_agg(jsonb_build_object('kind', 'a', 'args', repeat('x', 1000000))))
        FROM generate_series(1, 70)";
    let error = sqlx::query(database.sql(insert)).execute(database.pool()).await.unwrap_err().to_string();
    assert!(error.contains("invalid jobs: must not exceed 64 MB: 66 MB"), "{error}");
}
