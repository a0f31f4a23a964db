//! Inserts that are rolled back to a savepoint let go of their keys at once, not when the whole transaction ends.

use std::future::IntoFuture;

use sqlx::Connection;
use tokio::time::timeout;
use uniqueue::{NewJob, OnConflict, UniqueKey, UniqueScope};

use super::unique;
use support::{Database, WAIT, job};

const WAITING: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE '%{schema}%insert_%'";

fn keyed(on_conflict: OnConflict) -> NewJob {
    let scope = if on_conflict == OnConflict::RunAgain { UniqueScope::Queued } else { UniqueScope::Active };
    job("a").unique_key(UniqueKey::raw("k").scope(scope).on_conflict(on_conflict))
}

#[tokio::test]
async fn r9_a_rival_goes_on_when_an_insert_is_rolled_back_to_a_savepoint() {
    let changes = [
        OnConflict::Replace,
        OnConflict::ReplaceExceptSchedule,
        OnConflict::Preempt,
        OnConflict::Update,
        OnConflict::RunAgain,
    ];
    let changes = changes.map(|on_conflict| (on_conflict, true, 0));
    let ignores = [(OnConflict::Ignore, false, 0), (OnConflict::Ignore, false, 2)];
    for (on_conflict, has_holder, others) in changes.into_iter().chain(ignores) {
        let database = Database::slow_to_see_deadlocks(3).await;
        let client = &database.client;
        if has_holder {
            client.insert(keyed(OnConflict::Ignore)).await.unwrap();
        }
        let mut tx = database.pool().begin().await.unwrap();
        let mut savepoint = tx.begin().await.unwrap();
        let others = (0..others).map(|n| unique(&format!("other {n}"), OnConflict::Ignore));
        client.insert_many([keyed(on_conflict)].into_iter().chain(others)).tx(&mut savepoint).await.unwrap();
        let rival = client.insert(keyed(OnConflict::Replace)).into_future();
        let roll_back = async {
            database.until(WAITING, 1).await;
            savepoint.rollback().await.unwrap();
        };
        let (rival, ()) = timeout(WAIT, async { tokio::join!(rival, roll_back) })
            .await
            .unwrap_or_else(|_| panic!("the rival of {on_conflict:?} waits for the end of the whole transaction"));
        assert!(!rival.unwrap().duplicate);
        tx.rollback().await.unwrap();
    }
}

#[tokio::test]
async fn r10_batches_that_are_rolled_back_to_a_savepoint_do_not_deadlock() {
    let database = Database::slow_to_see_deadlocks(3).await;
    let client = &database.client;
    let batch = |keys: &[&str]| -> Vec<_> { keys.iter().map(|key| unique(key, OnConflict::Ignore)).collect() };
    let mut tx = database.pool().begin().await.unwrap();
    let mut savepoint = tx.begin().await.unwrap();
    client.insert_many(batch(&["c", "d"])).tx(&mut savepoint).await.unwrap();
    let (rival, jobs) = (client.clone(), batch(&["a", "c"]));
    let rival = tokio::spawn(async move { rival.insert_many(jobs).await });
    database.until(WAITING, 1).await;
    savepoint.rollback().await.unwrap();
    // The rival has the first of these keys.
    let again = client.insert_many(batch(&["a", "b"])).tx(&mut tx).into_future();
    let answers = timeout(WAIT, again).await.expect("no deadlock").unwrap();
    assert_eq!(answers.iter().map(|answer| answer.duplicate).collect::<Vec<_>>(), [true, false]);
    assert_eq!(rival.await.unwrap().unwrap().len(), 2);
}
