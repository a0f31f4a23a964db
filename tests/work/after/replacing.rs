//! Parents that another job replaces.

use super::{after, end, error_of, insert, refusal, settle, states, states_at_end};
use support::prelude::*;

/// A job with a key, which replaces the holder.
fn keyed(kind: &str, key: &str) -> Value {
    json!({"kind": kind, "unique_policy": {"key": key, "on_conflict": "replace"}})
}

/// The same, with other members.
fn keyed_with(kind: &str, key: &str, members: Value) -> Value {
    let mut job = keyed(kind, key);
    job.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    job
}

#[support::test]
async fn a_child_that_comes_while_the_releaser_moves_edges_waits_for_the_successor_too(database: Database) {
    let jobs = json!([keyed("p", "1"), after("b", &[0]), keyed("q", "2"), after("e", &[2])]);
    let ids = insert(&database, jobs).await;
    let late = json!({"scheduled_at": "2999-01-01T00:00:00Z"});
    insert(&database, json!([keyed_with("p", "1", late.clone()), keyed_with("q", "2", late)])).await;
    // The releaser has moved the edge of b when it waits for that of e.
    let edge = format!("SELECT FROM {{schema}}.job_parent WHERE child = '{}' FOR UPDATE", ids[3]);
    let tx = database.begin(&edge).await;
    let releasing = settle(&database);
    let inserting = async {
        database.until_locked("%_release_step%", 1).await;
        insert(&database, json!([{"kind": "c", "after": [ids[0]]}])).await;
        tx.rollback().await.unwrap();
    };
    tokio::join!(releasing, inserting);
    settle(&database).await;
    let expected = "b pending, c pending, e pending, p cancelled, p scheduled, q cancelled, q scheduled";
    assert_eq!(states(&database).await, expected);
}

#[support::test]
async fn the_children_of_a_chain_of_replaced_jobs_wait_for_the_last(database: Database) {
    // The id of the second is lower than that of the first.
    let [p, q, r] = [3, 1, 2].map(|n| format!("01890000-0000-7000-8000-00000000000{n}"));
    insert(&database, json!([keyed_with("p", "k", json!({"id": p})), after("c", &[0])])).await;
    insert(&database, json!([keyed_with("q", "k", json!({"id": q})), after("d", &[0])])).await;
    let last = insert(&database, json!([keyed_with("r", "k", json!({"id": r}))])).await[0];
    settle(&database).await;
    assert_eq!(states(&database).await, "c pending, d pending, p cancelled, q cancelled, r available");
    let parents = format!("SELECT count(*) FROM {{schema}}.job_parent WHERE parent = '{last}'");
    assert_eq!(database.number(&parents).await, 2);
    assert_eq!(
        states_at_end(&database, last, "completed").await,
        "c available, d available, p cancelled, q cancelled, r completed"
    );
}

#[tokio::test]
async fn a_parent_that_was_final_before_it_was_replaced_keeps_its_outcome() {
    let exists = json!({"key": "k", "scope": "exists", "on_conflict": "replace"});
    for (state, b, c) in [("completed", "available", "cancelled"), ("cancelled", "cancelled", "available")] {
        for releaser_is_quicker in [true, false] {
            let database = Database::new().await;
            let jobs =
                json!([{"kind": "a", "unique_policy": exists}, after("b", &[0]), {"kind": "c", "after_failed": [0]}]);
            let first = insert(&database, jobs).await[0];
            database.set_state(first, state).await;
            if releaser_is_quicker {
                settle(&database).await;
            }
            insert(&database, json!([{"kind": "a", "unique_policy": exists}])).await;
            settle(&database).await;
            assert_eq!(states(&database).await, format!("a {state}, a available, b {b}, c {c}"));
            let row = database.client.job(first).await.unwrap().unwrap();
            assert_eq!((row.replaced_by, row.claims), (None, false));
        }
    }
}

#[support::test]
async fn only_the_edge_that_would_close_a_circle_stays(database: Database) {
    let jobs = json!([keyed("a", "k"), {"kind": "b", "after_final": [0]}, after("d", &[0])]);
    let ids = insert(&database, jobs).await;
    let successor = insert(&database, json!([keyed_with("c", "k", json!({"after": [ids[1]]}))])).await[0];
    settle(&database).await;
    assert_eq!(states(&database).await, "a cancelled, b available, c pending, d pending");
    assert_eq!(states_at_end(&database, ids[1], "completed").await, "a cancelled, b completed, c available, d pending");
    end(&database, successor, "discarded").await;
    assert_eq!(error_of(&database, ids[2]).await, format!("cancelled: its parent {successor} (c) was discarded"));
}

#[support::test]
async fn the_stricter_condition_counts_for_a_child_of_a_job_and_of_its_successor(database: Database) {
    let first = insert(&database, json!([keyed("a", "k")])).await[0];
    let jobs = json!([keyed("a", "k"), {"kind": "b", "after_final": [0], "after": [first]}]);
    let ids = insert(&database, jobs).await;
    assert_eq!(states_at_end(&database, ids[0], "discarded").await, "a cancelled, a discarded, b cancelled");
}

#[support::test]
async fn a_job_that_would_replace_its_own_parent_is_refused(database: Database) {
    let holder = insert(&database, json!([keyed("a", "k")])).await[0];
    for (jobs, place) in [
        (json!([{"kind": "x"}, keyed_with("b", "k", json!({"after": [holder]}))]), 1),
        (json!([keyed("b", "k"), keyed_with("c", "k", json!({"after_final": [holder]}))]), 1),
    ] {
        let expected = format!("job {place}: invalid after: the job would replace its own parent {holder}");
        assert_eq!(refusal(&database, jobs).await, ("22023".to_owned(), expected));
    }
    let alone = format!(
        "SELECT FROM {{schema}}.insert_job('b', after => '{{{holder}}}', unique_policy => '{}')",
        json!({"key": "k", "on_conflict": "preempt"})
    );
    let expected = format!("invalid after: the job would replace its own parent {holder}");
    assert_eq!(database.refused(&alone).await.1, expected);
    assert_eq!(states(&database).await, "a available");
}

#[support::test]
async fn the_successor_of_a_job_with_children_is_not_deleted_when_it_completes(database: Database) {
    insert(&database, json!([keyed("a", "k"), after("b", &[0])])).await;
    let successor = insert(&database, json!([keyed("a", "k")])).await[0];
    // As a runner that keeps no completed jobs, quicker than the releaser.
    let run = database.number("SELECT run::bigint FROM {schema}.fetch_jobs('{default}', 'w')").await;
    let complete = format!(
        "SELECT cardinality(ended)::bigint FROM {{schema}}._delete_runs(
            (SELECT worker FROM {{schema}}.job WHERE id = '{successor}'), NULL, '{{{successor}}}', '{{{run}}}')"
    );
    database.number(&complete).await;
    settle(&database).await;
    assert_eq!(states(&database).await, "a cancelled, a completed, b available");
}

#[support::test]
async fn one_step_cancels_all_levels_of_a_chain(database: Database) {
    const LENGTH: usize = 1_000;
    let chain: Vec<Value> =
        (0..LENGTH).map(|n| if n == 0 { json!({"kind": "a"}) } else { after("a", &[n - 1]) }).collect();
    let first: JobId = insert(&database, json!(chain)).await[0];
    database.client.cancel([first]).await.unwrap();
    let step = "SELECT cancelled::bigint FROM {schema}._release_step(1000, NULL, NULL, NULL)";
    assert_eq!(database.number(step).await, LENGTH as i64 - 1);
}
