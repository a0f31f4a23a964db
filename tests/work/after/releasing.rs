//! When a child is released, and when it is cancelled.

use super::{after, end, error_of, insert, settle, states, states_at_end};
use support::prelude::*;

#[support::test]
async fn a_child_is_released_when_its_last_parent_has_completed(database: Database) {
    let jobs = json!([{"kind": "a"}, after("b", &[0]), after("c", &[0]), after("d", &[1, 2])]);
    let ids = insert(&database, jobs).await;
    assert_eq!(states(&database).await, "a available, b pending, c pending, d pending");
    assert_eq!(settle(&database).await, 0);
    for (id, expected) in [
        (ids[0], "a completed, b available, c available, d pending"),
        (ids[1], "a completed, b completed, c available, d pending"),
        (ids[2], "a completed, b completed, c completed, d available"),
    ] {
        assert_eq!(states_at_end(&database, id, "completed").await, expected);
    }
    assert_eq!(settle(&database).await, 0);
}

#[tokio::test]
async fn a_parent_that_fails_cancels_its_children_and_theirs_and_is_named() {
    for state in ["discarded", "cancelled"] {
        let database = Database::new().await;
        let jobs = json!([{"kind": "a"}, {"kind": "b"}, after("c", &[0, 1]), after("d", &[2])]);
        let ids = insert(&database, jobs).await;
        database.set_state(ids[0], state).await;
        // Not only when the other parent has ended.
        assert_eq!(settle(&database).await, 2);
        assert_eq!(states(&database).await, format!("a {state}, b available, c cancelled, d cancelled"));
        let reason = |parent, kind, state| format!("cancelled: its parent {parent} ({kind}) was {state}");
        assert_eq!(error_of(&database, ids[2]).await, reason(ids[0], "a", state));
        assert_eq!(error_of(&database, ids[3]).await, reason(ids[2], "c", "cancelled"));
        assert_eq!(end(&database, ids[1], "completed").await, 0);
    }
}

#[support::test]
async fn after_final_runs_however_the_parents_end(database: Database) {
    let jobs = json!([{"kind": "a"}, {"kind": "b"}, {"kind": "c", "after_final": [0, 1]}]);
    let ids = insert(&database, jobs).await;
    assert_eq!(states_at_end(&database, ids[0], "discarded").await, "a discarded, b available, c pending");
    assert_eq!(states_at_end(&database, ids[1], "cancelled").await, "a discarded, b cancelled, c available");
}

#[tokio::test]
async fn after_failed_runs_when_all_have_ended_and_one_failed_and_else_is_cancelled() {
    for (second, expected) in [("discarded", "available"), ("completed", "cancelled")] {
        let database = Database::new().await;
        let jobs = json!([{"kind": "a"}, {"kind": "b"}, {"kind": "c", "after_failed": [0, 1]}]);
        let ids = insert(&database, jobs).await;
        assert_eq!(states_at_end(&database, ids[1], second).await, format!("a available, b {second}, c pending"));
        assert_eq!(
            states_at_end(&database, ids[0], "completed").await,
            format!("a completed, b {second}, c {expected}")
        );
        if expected == "cancelled" {
            let reason = "cancelled: it runs only if a parent fails, and each of them completed";
            assert_eq!(error_of(&database, ids[2]).await, reason);
        }
    }
}

#[support::test]
async fn a_parent_that_has_ended_counts_at_once(database: Database) {
    let done = insert(&database, json!([{"kind": "a"}, {"kind": "b"}])).await;
    database.set_state(done[0], "completed").await;
    database.set_state(done[1], "discarded").await;
    let jobs = json!([{"kind": "c", "after": [done[0]]}, {"kind": "d", "after": [done[0], done[1]]}]);
    insert(&database, jobs).await;
    assert_eq!(settle(&database).await, 2);
    assert_eq!(states(&database).await, "a completed, b discarded, c available, d cancelled");
}

#[support::test]
async fn one_job_can_be_inserted_after_others_by_their_ids(database: Database) {
    let parents = insert(&database, json!([{"kind": "a"}, {"kind": "b"}, {"kind": "c"}])).await;
    let [a, b, c] = [parents[0], parents[1], parents[2]];
    let child = format!(
        "SELECT state FROM {{schema}}.insert_job('d', after => '{{{a}}}', after_final => '{{{b}}}', after_failed => '{{{c}}}')"
    );
    assert_eq!(database.text(&child).await, "pending");
    database.set_state(a, "completed").await;
    assert_eq!(states_at_end(&database, b, "discarded").await, "a completed, b discarded, c available, d pending");
    assert_eq!(states_at_end(&database, c, "discarded").await, "a completed, b discarded, c discarded, d available");
    // An empty array means no parents.
    assert_eq!(database.text("SELECT state FROM {schema}.insert_job('e', after => '{}')").await, "available");
}

#[support::test]
async fn a_child_is_released_in_its_own_queue_and_at_its_own_time(database: Database) {
    let late = "2999-01-01T00:00:00Z";
    let jobs = json!([{"kind": "a", "queue": "x"}, {"kind": "b", "queue": "y", "after": [0]}, {"kind": "c", "after": [0], "scheduled_at": late}]);
    let ids = insert(&database, jobs).await;
    assert_eq!(states_at_end(&database, ids[0], "completed").await, "a completed, b available, c scheduled");
    assert_eq!(database.text("SELECT queue FROM {schema}.job WHERE kind = 'b'").await, "y");
}

#[support::test]
async fn a_child_goes_on_without_its_claim_where_another_job_holds_its_key(database: Database) {
    let policy = json!({"key": "k", "states": ["available", "running"]});
    let jobs = json!([{"kind": "a"}, {"kind": "b", "after": [0], "unique_policy": policy}]);
    let ids = insert(&database, jobs).await;
    insert(&database, json!([{"kind": "c", "unique_policy": policy}])).await;
    assert_eq!(end(&database, ids[0], "completed").await, 1);
    assert_eq!(states(&database).await, "a completed, b available, c available");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE claims").await, 1);
}

#[support::test]
async fn a_duplicate_as_a_parent_means_its_holder_and_as_a_child_has_no_parents(database: Database) {
    let holder = insert(&database, json!([{"kind": "a", "unique_policy": {"key": "k"}}])).await[0];
    let jobs = json!([
        {"kind": "a", "unique_policy": {"key": "k"}},
        after("b", &[0]),
        {"kind": "a", "unique_policy": {"key": "k"}, "after": [1]},
    ]);
    let ids = insert(&database, jobs).await;
    assert_eq!((ids[0], ids[2]), (holder, holder));
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job_parent").await, 1);
    assert_eq!(states_at_end(&database, holder, "completed").await, "a completed, b available");
}

#[support::test]
async fn the_same_insert_sent_again_adds_no_parent(database: Database) {
    let id = "01890000-0000-7000-8000-000000000001";
    let first = insert(&database, json!([{"kind": "a"}, {"kind": "b", "id": id, "after": [0]}])).await;
    let again = insert(&database, json!([{"kind": "a"}, {"kind": "b", "id": id, "after": [0]}])).await;
    assert_eq!(first[1], again[1]);
    assert_eq!(states_at_end(&database, first[0], "completed").await, "a completed, a available, b available");
}

#[support::test]
async fn the_children_of_one_parent_are_released_in_steps_of_bounded_size(database: Database) {
    let parent = insert(&database, json!([{"kind": "a"}])).await[0];
    let children = support::soak(5_000, 50_000);
    for linked in [true, false] {
        let change = format!(
            "WITH child AS (
                INSERT INTO {{schema}}.job (id, kind, state)
                SELECT {{schema}}.new_job_id(), 'b', 'pending' FROM generate_series(1, {children} / 2)
                RETURNING id
            )
            INSERT INTO {{schema}}.job_parent (child, parent, linked, condition)
            SELECT id, '{parent}', {linked}, 'completed' FROM child"
        );
        database.execute(&change).await;
    }
    database.execute("UPDATE {schema}.job SET awaited = true WHERE kind = 'a'").await;
    database.set_state(parent, "completed").await;
    let (mut place, mut steps, mut released) = ((None, None, None), 0, 0);
    loop {
        let step = database.sql(
            "SELECT link_from, parent_from, child_from, linked, seen, released FROM {schema}._release_step(1000, $1, $2, $3)",
        );
        let step: (Option<uuid::Uuid>, Option<uuid::Uuid>, Option<uuid::Uuid>, i32, i32, i32) =
            sqlx::query_as(step).bind(place.0).bind(place.1).bind(place.2).fetch_one(database.pool()).await.unwrap();
        place = (step.0, step.1, step.2);
        assert!(step.3 <= 1_000 && step.4 <= 1_000, "{step:?}");
        released += step.5;
        steps += 1;
        if step.3 + step.4 == 0 {
            break;
        }
    }
    assert_eq!(released, children);
    assert!(steps >= children / 1_000);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE awaited").await, 0);
}
