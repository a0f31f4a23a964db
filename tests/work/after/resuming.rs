//! Retries of children, of parents, and of whole graphs that failed.

use super::{after, end, insert, open_edges, settle, states, states_at_end};
use support::prelude::*;

/// A graph whose step `c` fails. `a` and `b` completed; `d` and `e` are cancelled, and what runs at a failure or at the end ran.
async fn failed_graph(database: &Database) -> Vec<JobId> {
    let jobs = json!([
        {"kind": "a"}, after("b", &[0]), after("c", &[0]), after("d", &[1, 2]), after("e", &[3]),
        {"kind": "x", "after_failed": [1, 2]}, {"kind": "y", "after_final": [3]},
    ]);
    let ids = insert(database, jobs).await;
    for (place, state) in [(0, "completed"), (1, "completed"), (2, "discarded"), (5, "completed"), (6, "completed")] {
        database.set_state(ids[place], state).await;
        settle(database).await;
    }
    let expected = "a completed, b completed, c discarded, d cancelled, e cancelled, x completed, y completed";
    assert_eq!(states(database).await, expected);
    ids
}

#[support::test]
async fn r20_a_retried_child_of_a_parent_that_failed_waits_until_the_parent_is_retried(database: Database) {
    let ids = insert(&database, json!([{"kind": "a"}, after("b", &[0]), after("c", &[1])])).await;
    end(&database, ids[0], "discarded").await;
    assert_eq!(database.client.retry([ids[1]]).await.unwrap().len(), 2);
    settle(&database).await;
    assert_eq!(database.number("SELECT mended FROM {schema}._check_edges(NULL, 100)").await, 0);
    // A new child of the parent is cancelled. The retried one is not.
    insert(&database, json!([{"kind": "d", "after": [ids[0]]}])).await;
    settle(&database).await;
    assert_eq!(states(&database).await, "a discarded, b pending, c pending, d cancelled");
    let why = format!("SELECT string_agg(reason, ' ') FROM {{schema}}.why_waiting('{}')", ids[1]);
    let why = database.text(&why).await;
    assert!(why.contains(&format!("job {} (a), which was discarded and has to be retried", ids[0])), "{why}");
    database.client.retry([ids[0]]).await.unwrap();
    assert_eq!(states(&database).await, "a available, b pending, c pending, d pending");
    assert_eq!(states_at_end(&database, ids[0], "completed").await, "a completed, b available, c pending, d available");
}

#[support::test]
async fn r20_a_retried_child_of_a_parent_that_is_deleted_does_not_wait_for_it(database: Database) {
    let ids = insert(&database, json!([{"kind": "a"}, after("b", &[0])])).await;
    end(&database, ids[0], "discarded").await;
    database.client.retry([ids[1]]).await.unwrap();
    database.client.delete([ids[0]]).await.unwrap();
    assert_eq!(states(&database).await, "b cancelled");
    database.client.retry([ids[1]]).await.unwrap();
    assert_eq!(states(&database).await, "b available");
}

#[support::test]
async fn r20_a_retried_child_whose_parents_ended_as_it_asks_is_available_at_once(database: Database) {
    let ids = insert(&database, json!([{"kind": "a"}, after("b", &[0])])).await;
    for id in &ids {
        end(&database, *id, "completed").await;
    }
    database.client.retry([ids[1]]).await.unwrap();
    assert_eq!(states(&database).await, "a completed, b available");
    database.set_state(ids[1], "discarded").await;
    database.client.retry(ids.clone()).await.unwrap();
    assert_eq!(states(&database).await, "a available, b pending");
    assert_eq!(states_at_end(&database, ids[0], "completed").await, "a completed, b available");
}

#[support::test]
async fn r20_a_retried_parent_reopens_only_the_children_that_were_cancelled_because_of_it(database: Database) {
    let jobs = json!([
        {"kind": "a"}, {"kind": "b"}, after("c", &[0]), after("d", &[0, 1]), after("e", &[0]),
        {"kind": "f", "after_failed": [1]}, after("g", &[3]),
    ]);
    let ids = insert(&database, jobs).await;
    database.client.cancel([ids[4]]).await.unwrap();
    end(&database, ids[0], "discarded").await;
    end(&database, ids[1], "discarded").await;
    let expected = "a discarded, b discarded, c cancelled, d cancelled, e cancelled, f available, g cancelled";
    assert_eq!(states(&database).await, expected);
    // d was cancelled because of a, and e by hand.
    database.client.retry([ids[1]]).await.unwrap();
    assert_eq!(states(&database).await, expected.replace("b discarded", "b available"));
    database.set_state(ids[1], "completed").await;
    database.client.retry([ids[0]]).await.unwrap();
    settle(&database).await;
    let expected = "a available, b completed, c pending, d pending, e cancelled, f available, g pending";
    assert_eq!(states(&database).await, expected);
    end(&database, ids[0], "completed").await;
    let expected = "a completed, b completed, c available, d available, e cancelled, f available, g pending";
    assert_eq!(states(&database).await, expected);
    assert_eq!(open_edges(&database).await, 1);
}

#[tokio::test]
async fn r20_a_failed_graph_is_resumed_from_its_failed_steps_in_one_call() {
    // Whichever of its jobs is named.
    for place in [0, 1, 2, 3, 4, 6] {
        let database = Database::new().await;
        let ids = failed_graph(&database).await;
        let planned = Admin::new(&database.client).retry_graph_plan(ids[place]).await.unwrap();
        let expected = [(ids[2], JobState::Available), (ids[3], JobState::Pending), (ids[4], JobState::Pending)];
        assert_eq!(planned, expected, "{place}");
        let mut retried = database.client.retry_graph(ids[place]).actor("anna").await.unwrap();
        retried.sort();
        assert_eq!(retried, planned.iter().map(|(id, _)| *id).collect::<Vec<_>>());
        settle(&database).await;
        let resumed = "a completed, b completed, c available, d pending, e pending, x completed, y completed";
        assert_eq!(states(&database).await, resumed);
        for step in &ids[2..5] {
            end(&database, *step, "completed").await;
        }
        assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE state = 'completed'").await, 7);
        assert!(Admin::new(&database.client).retry_graph_plan(ids[place]).await.unwrap().is_empty());
    }
}

#[support::test]
async fn r20_what_waits_for_the_end_of_a_step_waits_for_its_retry(database: Database) {
    let ids = insert(&database, json!([{"kind": "a"}, {"kind": "b", "after_final": [0]}])).await;
    database.client.cancel(ids.clone()).await.unwrap();
    settle(&database).await;
    database.client.retry_graph(ids[1]).await.unwrap();
    settle(&database).await;
    assert_eq!(states(&database).await, "a available, b pending");
    assert_eq!(states_at_end(&database, ids[0], "discarded").await, "a discarded, b available");
}

#[tokio::test]
async fn r6_a_child_comes_back_to_its_key_or_goes_on_without() {
    for is_free in [true, false] {
        let database = Database::new().await;
        let policy = json!({"key": "k", "scope": "queued"});
        let ids = insert(&database, json!([{"kind": "a"}, {"kind": "b", "after": [0], "unique_policy": policy}])).await;
        end(&database, ids[0], "discarded").await;
        if !is_free {
            insert(&database, json!([{"kind": "c", "unique_policy": policy}])).await;
        }
        database.client.retry_graph(ids[0]).await.unwrap();
        let row = database.client.job(ids[1]).await.unwrap().unwrap();
        assert_eq!((row.state, row.claims), (JobState::Pending, is_free));
    }
}

#[support::test]
async fn r20_a_parent_that_is_retried_while_its_child_is_cancelled_reopens_it(database: Database) {
    let ids = insert(&database, json!([{"kind": "a"}, after("b", &[0])])).await;
    database.set_state(ids[0], "discarded").await;
    // The releaser has cancelled the child and not committed yet.
    let tx = database.begin("SELECT FROM {schema}._release_step(1000, NULL, NULL, NULL)").await;

    let retrying = async { database.client.retry([ids[0]]).await.unwrap() };
    let committing = async {
        database.until_locked("%retry_jobs%", 1).await;
        tx.commit().await.unwrap();
    };
    let (retried, ()) = tokio::join!(retrying, committing);
    assert_eq!(retried.len(), 2);
    assert_eq!(states(&database).await, "a available, b pending");
}
