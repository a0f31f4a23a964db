//! `stuck_job`: every reason. Jobs that make progress are not listed.

use support::prelude::*;

use super::{insert, runner, start};

/// Each stuck job: its kind of trouble and its queue.
async fn reasons(database: &Database) -> String {
    let rows =
        "SELECT coalesce(string_agg(queue || ': ' || code, ', ' ORDER BY queue, code), '') FROM {schema}.stuck_job";
    database.text(rows).await
}

#[support::test]
async fn a_running_job_is_stuck_when_its_runner_died_or_it_runs_long(database: Database) {
    let mine = runner(&database, "mine", "q").await;
    let id = insert(&database, "q").await;
    start(&database, id, &mine).await;
    assert_eq!(reasons(&database).await, "");
    database.execute("UPDATE {schema}.job SET attempted_at = now() - interval '61 minutes'").await;
    assert_eq!(reasons(&database).await, "q: running");
    // What the remedy says can be done.
    let remedy = database.text("SELECT substring(remedy FROM 'SELECT.*') FROM {schema}.stuck_job").await;
    assert_eq!(database.execute(&remedy).await, 1);
    assert_eq!(reasons(&database).await, "");
    database.client.retry([id]).await.unwrap();
    start(&database, id, &mine).await;
    database.execute("UPDATE {schema}.runner SET leased_until = now() - interval '10 s'").await;
    assert_eq!(reasons(&database).await, "");
    database.execute("UPDATE {schema}.runner SET leased_until = now() - interval '16 s'").await;
    assert_eq!(reasons(&database).await, "q: runner_died");
    database.execute("DELETE FROM {schema}.runner").await;
    assert_eq!(reasons(&database).await, "q: runner_died");
}

#[support::test]
async fn a_waiting_job_is_stuck_when_it_is_due_and_nobody_promotes_it(database: Database) {
    for state in ["scheduled", "retryable"] {
        let id = database.client.insert(job("a").scheduled_in(Duration::from_secs(5))).queue(state).await.unwrap().id();
        database.set_state(id, state).await;
    }
    insert(&database, "q").await;
    database.pass(Duration::from_secs(64)).await;
    assert_eq!(reasons(&database).await, "q: queue_unworked");
    database.pass(Duration::from_secs(10)).await;
    assert_eq!(reasons(&database).await, "q: queue_unworked, retryable: not_promoted, scheduled: not_promoted");
    let longest = "SELECT bool_and(stuck_for > interval '1 minute' AND stuck_for = statement_timestamp() - since)::text
        FROM {schema}.stuck_job";
    assert_eq!(database.text(longest).await, "true");
}

#[support::test]
async fn an_available_job_is_stuck_when_its_queue_is_paused_or_nobody_s_or_its_kind_unknown(database: Database) {
    let client = &database.client;
    let mine = runner(&database, "mine", "paused,unknown,limited,passed,backlog").await;
    for queue in ["paused", "unknown", "limited", "passed", "backlog", "nobody's"] {
        insert(&database, queue).await;
    }
    client.queue("paused").pause().await.unwrap();
    client.queue("limited").limit(Some(1)).await.unwrap();
    database.pass(Duration::from_secs(90)).await;
    // The runner is full in these; in one of them with a job that was inserted after the one that waits.
    for queue in ["limited", "backlog", "passed"] {
        let id = insert(&database, queue).await;
        start(&database, id, &mine).await;
        let at = if queue == "passed" { "now()" } else { "now() - interval '1 hour'" };
        let move_it = format!("UPDATE {{schema}}.job SET scheduled_at = {at}, created_at = {at} WHERE id = '{id}'");
        database.execute(&move_it).await;
    }
    // A pause counts from its own beginning.
    assert_eq!(reasons(&database).await, "nobody's: queue_unworked, passed: not_taken, unknown: not_taken");
    database.execute("UPDATE {schema}.queue SET paused_at = now() - interval '2 minutes' WHERE name = 'paused'").await;
    assert!(reasons(&database).await.contains("paused: queue_paused"));
    let remedy = database.text("SELECT remedy FROM {schema}.stuck_job WHERE queue = 'paused'").await;
    assert_eq!(database.execute(&remedy).await, 1);
    assert_eq!(client.queue("paused").settings().await.unwrap().paused_at, None);
    let remedy = "SELECT remedy FROM {schema}.stuck_job WHERE queue = 'unknown'";
    assert_eq!(database.text(remedy).await, r#"Start a runner of queue "unknown" that knows kind "a"."#);
}
