//! A remote worker that listens is woken by the next insert, and told when a job is taken away.

use sqlx::postgres::PgListener;
use tokio::time::timeout;
use uniqueue::JobId;

use super::Remote;
use support::{Database, WAIT, job};

#[support::test]
async fn a_worker_that_listens_is_woken_by_an_insert_between_its_fetches_or_after_them(database: Database) {
    let worker = Remote { listens: true, ..Remote::new(&database, "w") };
    let mut listener = PgListener::connect_with(&worker.pool).await.unwrap();
    listener.listen(&format!("{}.job", database.schema)).await.unwrap();
    for _ in 0..3 {
        assert!(worker.fetch(1).await.is_empty());
        assert!(worker.fetch(1).await.is_empty());
        database.client.insert(job("j")).await.unwrap();
        let heard = timeout(WAIT, listener.recv()).await.unwrap().unwrap();
        assert_eq!(heard.payload(), "default");
        let fetched = worker.fetch_one().await;
        assert_eq!(database.number("SELECT count(*) FROM {schema}.runner WHERE idle").await, 0);
        worker.complete(&fetched).await;
    }
    // A job that comes between the two fetches is found by the second.
    assert!(worker.fetch(1).await.is_empty());
    database.client.insert(job("j")).await.unwrap();
    assert_eq!(worker.fetch(1).await.len(), 1);
}

#[support::test]
async fn a_worker_that_does_not_listen_costs_inserts_no_notification(database: Database) {
    let worker = Remote::new(&database, "w");
    assert!(worker.fetch(1).await.is_empty());
    assert_eq!(database.number("SELECT count(*) FROM {schema}.runner WHERE idle").await, 0);
    // It listened before.
    let listening = Remote { listens: true, ..worker.clone() };
    assert!(listening.fetch(1).await.is_empty());
    assert_eq!(database.number("SELECT count(*) FROM {schema}.runner WHERE idle").await, 1);
    assert!(worker.fetch(1).await.is_empty());
    assert_eq!(database.number("SELECT count(*) FROM {schema}.runner WHERE idle").await, 0);
}

#[support::test]
async fn a_worker_is_told_by_its_id_when_a_running_job_is_cancelled(database: Database) {
    let worker = Remote::new(&database, "w");
    database.client.insert(job("j")).await.unwrap();
    let fetched = worker.fetch_one().await;
    let mut listener = PgListener::connect_with(&worker.pool).await.unwrap();
    listener.listen(&format!("{}.control", database.schema)).await.unwrap();
    database.client.cancel(JobId::from(fetched.id)).await.unwrap();
    let heard = timeout(WAIT, listener.recv()).await.unwrap().unwrap();
    assert_eq!(heard.payload(), fetched.worker_id.to_string());
    let held = worker.extend(&[fetched]).await.remove(0);
    assert_eq!((held.held, held.state.as_deref()), (false, Some("cancelled")));
}
