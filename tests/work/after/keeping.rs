//! How long parents and edges are kept.

use std::time::Duration;

use serde_json::json;
use uniqueue::{Retention, Runner};

use super::{after, insert, settle, states};
use support::{Database, WAIT};

const PRUNE: &str = "SELECT pruned FROM {schema}._prune_jobs(
    {schema}.id_at('-infinity'), 'ffffffff-ffff-ffff-ffff-ffffffffffff', 1000, '0', '0', '0', '1 hour')";

#[support::test]
async fn a_final_parent_is_kept_until_its_children_are_final(database: Database) {
    let ids = insert(&database, json!([{"kind": "a"}, after("b", &[0]), {"kind": "c"}])).await;
    database.set_state(ids[0], "completed").await;
    database.set_state(ids[2], "completed").await;
    assert_eq!(database.number(PRUNE).await, 1);
    settle(&database).await;
    assert_eq!(database.number(PRUNE).await, 0);
    database.set_state(ids[1], "running").await;
    assert_eq!(database.number(PRUNE).await, 0);
    assert_eq!(states(&database).await, "a completed, b running");
    database.set_state(ids[1], "completed").await;
    assert_eq!(database.number(PRUNE).await, 2);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job_parent").await, 0);
}

#[support::test]
async fn a_parent_is_kept_for_a_child_whose_edge_is_not_linked_yet(database: Database) {
    let parent = insert(&database, json!([{"kind": "a"}])).await[0];
    database.set_state(parent, "discarded").await;
    let mut tx = database.pool().begin().await.unwrap();
    let child = database.sql(&format!("SELECT id FROM {{schema}}.insert_job('b', after => '{{{parent}}}')"));
    sqlx::query(child).execute(&mut *tx).await.unwrap();
    assert_eq!(database.number(PRUNE).await, 0);
    tx.commit().await.unwrap();
    assert_eq!(database.number(PRUNE).await, 0);
    settle(&database).await;
    assert_eq!(states(&database).await, "a discarded, b cancelled");
}

#[support::test]
async fn a_job_that_others_wait_for_is_not_deleted_when_it_completes(database: Database) {
    let runner = Runner::new(database.client.clone())
        .queue("default", 2)
        .retention(Retention::default().completed(Duration::ZERO))
        .worker_for(["a"], |_| async {})
        .worker_for(["b"], |_| async {})
        .prune_interval(Duration::from_millis(50))
        .start()
        .await
        .unwrap();
    insert(&database, json!([{"kind": "a"}, after("b", &[0]), {"kind": "a"}])).await;
    database.until("SELECT count(*) FROM {schema}.job", 0).await;
    tokio::time::timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    assert_eq!(settle(&database).await, 0);
}

#[support::test]
async fn edges_that_changes_by_hand_leave_behind_are_put_right(database: Database) {
    let jobs = json!([{"kind": "a"}, {"kind": "b"}, after("c", &[0]), after("d", &[1]), after("e", &[1])]);
    insert(&database, jobs).await;
    database.execute("DELETE FROM {schema}.job WHERE kind IN ('a', 'd')").await;
    database
        .execute("UPDATE {schema}.job SET awaited = NULL, state = 'completed', finalized_at = now() WHERE kind = 'b'")
        .await;
    assert_eq!(settle(&database).await, 0);
    assert_eq!(database.number("SELECT mended FROM {schema}._check_edges(NULL, 100)").await, 3);
    // A parent that is gone without a note of its end counts as completed.
    assert_eq!(settle(&database).await, 2);
    assert_eq!(states(&database).await, "b completed, c available, e available");
    assert_eq!(database.number("SELECT mended FROM {schema}._check_edges(NULL, 100)").await, 0);
}

#[support::test]
async fn a_runner_releases_children_and_mends_edges(database: Database) {
    let runner = Runner::new(database.client.clone()).queue("default", 2).worker_for(["a"], |_| async {});
    let runner = runner.start().await.unwrap();
    insert(&database, json!([{"kind": "a"}, {"kind": "a", "after": [0]}, {"kind": "a", "after_final": [1]}])).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 3).await;
    insert(&database, json!([{"kind": "gone"}, {"kind": "a", "after": [0]}])).await;
    database.execute("DELETE FROM {schema}.job WHERE kind = 'gone'").await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 4).await;
    runner.stop().await.unwrap();
}

#[support::test]
async fn the_edges_of_deleted_jobs_are_deleted_as_fast_as_they_come(database: Database) {
    // As a runner leaves them that deletes jobs as they complete.
    let left = "INSERT INTO {schema}.job_parent (child, parent, outcome, linked, condition)
        SELECT {schema}.new_job_id(), {schema}.new_job_id(), 'completed', true, 'completed' FROM generate_series(1, 20000)";
    database.execute(left).await;
    let runner = Runner::new(database.client.clone()).queue("default", 1).worker_for(["a"], |_| async {});
    let runner = runner.start().await.unwrap();
    // At 500 edges each ten seconds this would take longer than the test waits.
    database.until("SELECT count(*) FROM {schema}.job_parent", 0).await;
    runner.stop().await.unwrap();
}
