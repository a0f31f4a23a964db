//! Expired jobs and unique keys.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use uniqueue::{Client, JobState, NewJob, OnConflict, UniqueKey, UniqueScope, Update};

use super::{HOUR, pass, row};
use support::{Database, job};

#[support::test]
async fn r21_an_insert_never_meets_an_expired_holder(database: Database, client: &Client) {
    for on_conflict in OnConflict::ALL {
        if matches!(on_conflict, OnConflict::RunAgain) {
            continue;
        }
        let unique = || job("a").unique_key(UniqueKey::raw("k").on_conflict(on_conflict));
        let holder = client.insert(unique().expires_in(HOUR)).await.unwrap().id();
        pass(&database, holder).await;
        assert_eq!(client.explain(unique()).await.unwrap().outcome.as_str(), "inserted", "{on_conflict}");
        let newcomer = client.insert(unique()).await.unwrap();
        assert!(!newcomer.duplicate && newcomer.replaced.is_none(), "{on_conflict}: {newcomer:?}");
        let holder = row(&database, holder).await;
        assert_eq!((holder.state, holder.errors.len()), (JobState::Discarded, 1), "{on_conflict}");
        client.cancel([newcomer.id()]).await.unwrap();
    }
    // In a batch, and where the claim outlasts the job.
    let exists = || job("a").unique_key(UniqueKey::raw("k").scope(UniqueScope::Exists));
    let holder = client.insert(exists().expires_in(HOUR)).await.unwrap().id();
    pass(&database, holder).await;
    let answers = client.insert_many([exists(), job("b")]).await.unwrap();
    assert!(answers[0].duplicate && answers[0].job.state == JobState::Discarded, "{answers:?}");
}

/// Inserters and the service meet an expired holder at once: one job of the key is inserted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r21_one_of_many_inserts_takes_the_key_of_an_expired_job() {
    let database = Database::with_connections(30).await;
    let unique = || job("a").unique_key(UniqueKey::raw("k"));
    for _ in 0..5 {
        let holder = database.client.insert(unique().expires_in(HOUR)).await.unwrap().id();
        pass(&database, holder).await;
        let mut crowd = JoinSet::new();
        for _ in 0..12 {
            let client = database.client.clone();
            crowd.spawn(async move { client.insert(unique()).await.unwrap() });
        }
        let maintaining = database.number("SELECT expired FROM {schema}.maintain()");
        let (_, answers) = tokio::join!(maintaining, crowd.join_all());
        assert_eq!(answers.iter().filter(|answer| !answer.duplicate).count(), 1);
        assert_eq!(row(&database, holder).await.state, JobState::Discarded);
        database.client.cancel([answers[0].id()]).await.unwrap();
    }
}

#[support::test]
async fn r21_a_job_that_stands_for_others_expires_when_the_last_of_them_does(database: Database, client: &Client) {
    let updating = || UniqueKey::raw("k").update(Update::merge());
    let covering = || UniqueKey::raw("k").scope(UniqueScope::Queued).on_conflict(OnConflict::RunAgain);
    let keys: [&dyn Fn() -> UniqueKey; 2] = [&updating, &covering];
    for key in keys {
        let insert = async |length: Option<Duration>| {
            let new = NewJob::new("a", &json!({"n": 1})).unique_key(key());
            let new = match length {
                Some(length) => new.expires_in(length),
                None => new,
            };
            let id = client.insert(new).await.unwrap().id();
            let row = row(&database, id).await;
            row.expires_at.map(|at| (at - row.created_at).whole_minutes())
        };
        assert_eq!(insert(Some(HOUR)).await, Some(60));
        assert_eq!(insert(Some(2 * HOUR)).await, Some(120));
        assert_eq!(insert(Some(HOUR)).await, Some(120));
        assert_eq!(insert(None).await, None);
        assert_eq!(insert(Some(HOUR)).await, None);
        database.execute("DELETE FROM {schema}.job").await;
        // In one batch.
        let jobs =
            [HOUR, 3 * HOUR, HOUR].map(|length| NewJob::new("a", &json!({})).unique_key(key()).expires_in(length));
        let answers = client.insert_many(jobs).await.unwrap();
        let stored = row(&database, answers[0].id()).await;
        assert_eq!((stored.expires_at.unwrap() - stored.created_at).whole_minutes(), 180);
        database.execute("DELETE FROM {schema}.job").await;
    }
}
