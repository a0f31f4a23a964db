//! Counts of queues that many clients of a process share.

use std::sync::Arc;
use std::time::Duration;

use support::Database;
use tokio::task::JoinSet;
use uniqueue::{QueueCache, QueueInfo};

/// Longer than an answer is shared.
const SLOW: Duration = Duration::from_millis(1_200);

/// The answers to forty clients that ask before and while a slow read is under way.
async fn answers(database: &Database, cache: &Arc<QueueCache>) -> Vec<Arc<[QueueInfo]>> {
    let mut locking = database.pool().begin().await.unwrap();
    let lock = database.sql("LOCK TABLE {schema}.queue IN ACCESS EXCLUSIVE MODE");
    sqlx::query(lock).execute(&mut *locking).await.unwrap();
    let mut clients = JoinSet::new();
    for _ in 0..40 {
        let cache = Arc::clone(cache);
        clients.spawn(async move { cache.queues().await.unwrap() });
    }
    database.until_waits_for("queue").await;
    tokio::time::sleep(SLOW).await;
    locking.rollback().await.unwrap();
    clients.join_all().await
}

#[tokio::test]
async fn clients_that_waited_for_a_slow_read_of_counts_accept_it() {
    let database = Database::with_connections(4).await;
    let cache = Arc::new(QueueCache::new(database.client.clone()));
    let first = answers(&database, &cache).await;
    assert!(first.iter().all(|answer| Arc::ptr_eq(answer, &first[0])), "they read anew");
    cache.changed();
    let second = answers(&database, &cache).await;
    assert!(second.iter().all(|answer| Arc::ptr_eq(answer, &second[0])), "they read anew");
    assert!(!Arc::ptr_eq(&first[0], &second[0]), "the change is not in the first");
}
