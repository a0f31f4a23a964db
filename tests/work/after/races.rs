//! Parents that end while a child is inserted, and children that several callers release at once.

use sqlx::{Executor, Postgres, Transaction};

use super::{after, end, insert, open_edges, settle, states, states_at_end};
use support::prelude::*;

async fn insert_child(database: &Database, tx: &mut PgConnection, parent: JobId) {
    let child = database.sql(&format!("SELECT FROM {{schema}}.insert_job('b', after => '{{{parent}}}')"));
    tx.execute(sqlx::raw_sql(child)).await.unwrap();
}

/// Runs a step in a transaction that stays open. Returns the number of jobs that it released or cancelled.
async fn step(database: &Database, tx: &mut Transaction<'_, Postgres>) -> i32 {
    let step = "SELECT released + cancelled FROM {schema}._release_step(1000, NULL, NULL, NULL)";
    sqlx::query_scalar(database.sql(step)).fetch_one(&mut **tx).await.unwrap()
}

#[tokio::test]
async fn the_open_transaction_of_a_child_holds_up_neither_start_nor_end_of_its_parent() {
    for commits in [true, false] {
        let database = Database::new().await;
        let parent = insert(&database, json!([{"kind": "a"}])).await[0];
        let mut tx = database.pool().begin().await.unwrap();
        insert_child(&database, &mut tx, parent).await;
        assert_eq!(database.number("SELECT count(*) FROM {schema}.fetch_jobs('{default}', 'w')").await, 1);
        let end = "SELECT count(*) FROM {schema}.job AS j, {schema}.complete_jobs(ARRAY[j.id], ARRAY[j.run]) AS c
            WHERE c.counted AND set_config('lock_timeout', '1', true) IS NOT NULL";
        assert_eq!(database.number(end).await, 1);
        assert_eq!(settle(&database).await, 0);
        if commits {
            tx.commit().await.unwrap();
            assert_eq!(settle(&database).await, 1);
            assert_eq!(states(&database).await, "a completed, b available");
        } else {
            tx.rollback().await.unwrap();
            assert_eq!(settle(&database).await, 0);
            assert_eq!(states(&database).await, "a completed");
            assert_eq!(open_edges(&database).await, 0);
        }
    }
}

#[support::test]
async fn an_operator_changes_a_parent_while_the_transaction_of_its_child_is_open(database: Database) {
    let parent = insert(&database, json!([{"kind": "a"}])).await[0];
    let mut tx = database.pool().begin().await.unwrap();
    insert_child(&database, &mut tx, parent).await;
    for verb in [
        "set_priority(ARRAY(SELECT id FROM {schema}.job), 3)",
        "reschedule_jobs(ARRAY(SELECT id FROM {schema}.job), now())",
        "cancel_jobs(ARRAY(SELECT id FROM {schema}.job))",
    ] {
        let change = "SELECT count(*) FROM {schema}.".to_owned()
            + verb
            + " WHERE set_config('lock_timeout', '1', true) IS NOT NULL";
        assert_eq!(database.number(&change).await, 1, "{verb}");
    }
    tx.commit().await.unwrap();
    settle(&database).await;
    assert_eq!(states(&database).await, "a cancelled, b cancelled");
}

#[support::test]
async fn two_last_parents_that_are_told_at_once_release_their_child_once(database: Database) {
    let jobs = json!([{"kind": "a"}, {"kind": "a"}, after("b", &[0, 1])]);
    let ids = insert(&database, jobs).await;
    database.set_state(ids[0], "completed").await;
    let (mut first, mut second) = (database.pool().begin().await.unwrap(), database.pool().begin().await.unwrap());
    assert_eq!(step(&database, &mut first).await, 0);
    database.set_state(ids[1], "completed").await;
    // The second step does not see the outcome that the first one noted, and has not locked the child.
    assert_eq!(step(&database, &mut second).await, 0);
    first.commit().await.unwrap();
    second.commit().await.unwrap();
    assert_eq!(settle(&database).await, 1);
    assert_eq!(states(&database).await, "a completed, a completed, b available");
    assert_eq!(settle(&database).await, 0);
}

#[support::test]
async fn a_step_that_is_rolled_back_leaves_its_parents_to_the_next(database: Database) {
    let ids = insert(&database, json!([{"kind": "a"}, after("b", &[0])])).await;
    database.set_state(ids[0], "completed").await;
    let mut tx = database.pool().begin().await.unwrap();
    assert_eq!(step(&database, &mut tx).await, 1);
    assert_eq!(settle(&database).await, 0);
    tx.rollback().await.unwrap();
    assert_eq!(settle(&database).await, 1);
    assert_eq!(states(&database).await, "a completed, b available");
}

#[support::test]
async fn a_locked_child_holds_up_no_other_and_is_released_later(database: Database) {
    let ids = insert(&database, json!([{"kind": "a"}, after("b", &[0]), after("c", &[0])])).await;
    database.set_state(ids[0], "completed").await;
    let tx = database.begin("SELECT FROM {schema}.job WHERE kind = 'b' FOR SHARE").await;
    assert_eq!(settle(&database).await, 1);
    assert_eq!(states(&database).await, "a completed, b pending, c available");
    tx.rollback().await.unwrap();
    assert_eq!(settle(&database).await, 1);
    assert_eq!(states(&database).await, "a completed, b available, c available");
}

#[support::test]
async fn a_locked_parent_holds_up_no_other_edge(database: Database) {
    let parents = insert(&database, json!([{"kind": "a"}, {"kind": "b"}])).await;
    let tx = database.begin("SELECT FROM {schema}.job WHERE kind = 'a' FOR UPDATE").await;
    // The edge of a locked parent is entered by hand, since its insert would wait for the lock.
    let edge = "INSERT INTO {schema}.job_parent (child, parent, linked, condition)
        SELECT c.id, p.id, false, 'completed' FROM {schema}.job AS p, {schema}.insert_job(upper(p.kind), pending => true) AS c
        WHERE p.kind IN ('a', 'b')";
    database.execute(edge).await;
    assert_eq!(end(&database, parents[1], "completed").await, 1);
    assert_eq!(states(&database).await, "A pending, B available, a available, b completed");
    tx.rollback().await.unwrap();
    assert_eq!(end(&database, parents[0], "completed").await, 1);
}

#[support::test]
async fn a_job_that_the_database_refuses_to_change_holds_up_no_other(database: Database) {
    let ids = insert(&database, json!([{"kind": "a"}, after("b", &[0]), after("c", &[0])])).await;
    database.trigger("BEFORE UPDATE", "OLD.kind = 'b'", "RAISE 'no';").await;
    assert_eq!(states_at_end(&database, ids[0], "completed").await, "a completed, b pending, c available");
    database.drop_trigger().await;
    assert_eq!(settle(&database).await, 1);
}
