//! Parents and children that operators and duplicates change.

use super::{after, end, insert, open_edges, settle, states, states_at_end};
use support::prelude::*;

#[support::test]
async fn an_operator_can_run_and_cancel_a_child_by_hand(database: Database) {
    let ids = insert(&database, json!([{"kind": "a"}, after("b", &[0]), after("c", &[0]), after("d", &[2])])).await;
    let [_, b, c, _] = ids[..] else { unreachable!() };
    database.client.release([b]).await.unwrap();
    database.client.cancel([c]).await.unwrap();
    settle(&database).await;
    assert_eq!(states(&database).await, "a available, b available, c cancelled, d cancelled");
    database.set_state(ids[0], "discarded").await;
    // Neither is changed by the end of the parent.
    assert_eq!(settle(&database).await, 0);
    assert_eq!(open_edges(&database).await, 0);
    assert_eq!(states(&database).await, "a discarded, b available, c cancelled, d cancelled");
}

#[support::test]
async fn nothing_but_its_parents_and_an_operator_s_release_ends_the_wait_of_a_child(database: Database) {
    let ids = insert(&database, json!([{"kind": "a"}, after("b", &[0])])).await;
    for verb in [
        "retry_jobs(ARRAY(SELECT id FROM {schema}.job WHERE kind = 'b'))",
        "set_priority(ARRAY(SELECT id FROM {schema}.job WHERE kind = 'b'), 3)",
        "reschedule_jobs(ARRAY(SELECT id FROM {schema}.job WHERE kind = 'b'), now())",
        "_run_service('promoter')",
        "_run_service('rescuer')",
        "fetch_jobs('{default}', 'w', 10, '{b}')",
    ] {
        database.number(&format!("SELECT count(*) FROM {{schema}}.{verb}")).await;
        assert_eq!(states(&database).await, "a available, b pending", "{verb}");
    }
    assert_eq!(end(&database, ids[0], "completed").await, 1);
}

#[support::test]
async fn a_parent_that_is_retried_after_its_child_was_told_changes_nothing(database: Database) {
    let ids = insert(&database, json!([{"kind": "a"}, {"kind": "b"}, after("c", &[0, 1])])).await;
    end(&database, ids[0], "completed").await;
    database.client.retry([ids[0]]).await.unwrap();
    assert_eq!(end(&database, ids[1], "completed").await, 1);
    assert_eq!(states(&database).await, "a available, b completed, c available");
    assert_eq!(end(&database, ids[0], "discarded").await, 0);
}

#[support::test]
async fn a_parent_that_is_retried_before_its_child_was_told_is_waited_for_again(database: Database) {
    let ids = insert(&database, json!([{"kind": "a"}, after("b", &[0])])).await;
    database.set_state(ids[0], "discarded").await;
    database.client.retry([ids[0]]).await.unwrap();
    assert_eq!(settle(&database).await, 0);
    assert_eq!(states(&database).await, "a available, b pending");
    assert_eq!(end(&database, ids[0], "completed").await, 1);
}

#[tokio::test]
async fn a_deleted_parent_counts_as_it_ended_and_else_as_cancelled() {
    for (state, condition, expected) in [
        ("completed", "after", "available"),
        ("discarded", "after", "cancelled"),
        ("scheduled", "after", "cancelled"),
        ("scheduled", "after_final", "available"),
    ] {
        let database = Database::new().await;
        let ids = insert(&database, json!([{"kind": "a"}, {"kind": "b", condition: [0]}])).await;
        database.set_state(ids[0], state).await;
        assert_eq!(database.client.delete([ids[0]]).await.unwrap().len(), 1);
        assert_eq!(states(&database).await, format!("b {expected}"), "{state} {condition}");
        assert_eq!(settle(&database).await, 0);
    }
}

#[support::test]
async fn a_parent_whose_child_is_locked_is_not_deleted(database: Database) {
    let ids = insert(&database, json!([{"kind": "a"}, after("b", &[0]), {"kind": "c"}])).await;
    let tx = database.begin("SELECT FROM {schema}.job WHERE kind = 'b' FOR UPDATE").await;
    let deleted = database.client.delete([ids[0], ids[2]]).await.unwrap();
    assert_eq!(deleted.len(), 1);
    tx.rollback().await.unwrap();
    assert_eq!(states(&database).await, "a available, b pending");
    assert_eq!(database.client.delete([ids[0]]).await.unwrap().len(), 1);
    assert_eq!(states(&database).await, "b cancelled");
}

#[support::test]
async fn a_child_that_waits_for_a_job_and_for_its_successor_waits_for_the_successor(database: Database) {
    let policy = json!({"key": "k", "on_conflict": "replace"});
    let first = insert(&database, json!([{"kind": "a", "unique_policy": policy}])).await[0];
    let jobs = json!([{"kind": "a", "unique_policy": policy}, {"kind": "b", "after": [0, first]}]);
    let ids = insert(&database, jobs).await;
    settle(&database).await;
    assert_eq!(states(&database).await, "a cancelled, a available, b pending");
    assert_eq!(states_at_end(&database, ids[0], "completed").await, "a cancelled, a completed, b available");
}

#[support::test]
async fn a_successor_that_waits_for_a_child_of_its_predecessor_does_not_take_its_place(database: Database) {
    let policy = json!({"key": "k", "on_conflict": "replace"});
    let ids =
        insert(&database, json!([{"kind": "a", "unique_policy": policy}, after("b", &[0]), after("c", &[1])])).await;
    // It waits for c, which waits for b, which waited for the job that it replaces.
    insert(&database, json!([{"kind": "a", "unique_policy": policy, "after_final": [ids[2]]}])).await;
    settle(&database).await;
    assert_eq!(states(&database).await, "a cancelled, a available, b cancelled, c cancelled");
}

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
    let child = format!("SELECT id FROM {{schema}}.insert_job('b', after => '{{{parent}}}')");
    let tx = database.begin(&child).await;
    assert_eq!(database.number(PRUNE).await, 0);
    tx.commit().await.unwrap();
    assert_eq!(database.number(PRUNE).await, 0);
    settle(&database).await;
    assert_eq!(states(&database).await, "a discarded, b cancelled");
}

#[support::test]
async fn a_job_that_others_wait_for_is_not_deleted_when_it_completes(database: Database) {
    let runner = database.runner().queue("default", 2).retention(Retention::default().completed(Duration::ZERO));
    let runner = runner.prune_interval(Duration::from_millis(50)).worker_for(["a", "b"], |_| async {});
    database.start(runner).await;
    insert(&database, json!([{"kind": "a"}, after("b", &[0]), {"kind": "a"}])).await;
    database.until("SELECT count(*) FROM {schema}.job", 0).await;
    database.end().await;
    assert_eq!(settle(&database).await, 0);
}

#[support::test]
async fn edges_that_changes_by_hand_leave_behind_are_put_right(database: Database) {
    let jobs = json!([{"kind": "a"}, {"kind": "b"}, after("c", &[0]), after("d", &[1]), after("e", &[1])]);
    insert(&database, jobs).await;
    database.execute("DELETE FROM {schema}.job WHERE kind IN ('a', 'd')").await;
    let update = "UPDATE {schema}.job SET awaited = NULL, state = 'completed', finalized_at = now() WHERE kind = 'b'";
    database.execute(update).await;
    assert_eq!(settle(&database).await, 0);
    assert_eq!(database.number("SELECT mended FROM {schema}._check_edges(NULL, 100)").await, 3);
    // A parent that is gone without a note of its end counts as completed.
    assert_eq!(settle(&database).await, 2);
    assert_eq!(states(&database).await, "b completed, c available, e available");
    assert_eq!(database.number("SELECT mended FROM {schema}._check_edges(NULL, 100)").await, 0);
}

#[support::test]
async fn a_runner_releases_children_and_mends_edges(database: Database) {
    database.start(database.runner().queue("default", 2).worker_for(["a"], |_| async {})).await;
    insert(&database, json!([{"kind": "a"}, {"kind": "a", "after": [0]}, {"kind": "a", "after_final": [1]}])).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 3).await;
    insert(&database, json!([{"kind": "gone"}, {"kind": "a", "after": [0]}])).await;
    database.execute("DELETE FROM {schema}.job WHERE kind = 'gone'").await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 4).await;
}

#[support::test]
async fn the_edges_of_deleted_jobs_are_deleted_as_fast_as_they_come(database: Database) {
    // As a runner leaves them that deletes jobs as they complete.
    let left = "INSERT INTO {schema}.job_parent (child, parent, outcome, linked, condition)
        SELECT {schema}.new_job_id(), {schema}.new_job_id(), 'completed', true, 'completed' FROM generate_series(1, 20000)";
    database.execute(left).await;
    database.start(database.runner().queue("default", 1).worker_for(["a"], |_| async {})).await;
    // At 500 edges each ten seconds this would take longer than the test waits.
    database.until("SELECT count(*) FROM {schema}.job_parent", 0).await;
}
