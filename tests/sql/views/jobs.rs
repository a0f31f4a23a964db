//! `unique_claim`, `running_job`, `queue_status`, `failing_kind`.

use support::prelude::*;

use super::{insert, runner, start};

#[support::test]
async fn unique_claim_lists_the_keys_that_are_claimed_now_and_says_when_they_free(database: Database, client: &Client) {
    let plain = client.insert(job("a").unique_key(UniqueKey::raw("k"))).await.unwrap().id();
    let timed = UniqueKey::raw("timed").scope(UniqueScope::Exists).period(Duration::from_secs(60));
    client.insert(job("b").unique_key(timed)).await.unwrap();
    client.insert(job("c")).await.unwrap();
    let keys = "SELECT coalesce(string_agg(unique_key, ' ' ORDER BY unique_key), '') FROM {schema}.unique_claim";
    assert_eq!(database.text(keys).await, "k timed");
    let claim =
        "SELECT concat_ws(' ', kind, queue, state, claims_in, frees, claimed_until, age < interval '1 minute', attempt)
        FROM {schema}.unique_claim WHERE unique_key = 'k'";
    assert_eq!(
        database.text(claim).await,
        "a default available {pending,scheduled,available,retryable} \
         when it is running, completed, cancelled or discarded t 0"
    );
    let holder = format!("SELECT count(*) FROM {{schema}}.unique_claim WHERE holder = '{plain}'");
    assert_eq!(database.number(&holder).await, 1);
    // What does not claim, or not any more, is not listed.
    database.pass(Duration::from_secs(61)).await;
    assert_eq!(database.text(keys).await, "k");
    database.set_state(plain, "completed").await;
    assert_eq!(database.text(keys).await, "");
}

#[support::test]
async fn running_job_says_who_has_it_and_whether_that_runner_lives(database: Database) {
    let id = insert(&database, "q").await;
    insert(&database, "q").await;
    let mine = runner(&database, "mine", "q").await;
    start(&database, id, &mine).await;
    let row = "SELECT concat_ws(' ', kind, queue, attempt, runner_name, runner_is_alive, lease_left > interval '0',
            running_for < interval '1 minute', progress)
        FROM {schema}.running_job";
    database.execute("UPDATE {schema}.job SET progress = '7' WHERE state = 'running'").await;
    assert_eq!(database.text(row).await, "a q 1 mine t t t 7");
    database.execute("UPDATE {schema}.runner SET leased_until = now() - interval '1 minute'").await;
    assert_eq!(database.text(row).await, "a q 1 mine f f t 7");
    database.execute("DELETE FROM {schema}.runner").await;
    assert_eq!(database.text(row).await, "a q 1 f t 7");
}

#[support::test]
async fn queue_status_says_in_a_word_how_a_queue_is(database: Database, client: &Client) {
    let mine = runner(&database, "mine", "paused,limited,busy,waits,idle").await;
    for queue in ["paused", "nobody's", "limited", "limited", "busy", "waits"] {
        let id = insert(&database, queue).await;
        if queue == "busy" || (queue == "limited" && client.queue("limited").settings().await.unwrap().limit.is_none())
        {
            start(&database, id, &mine).await;
            client.queue("limited").limit(Some(1)).await.unwrap();
        }
    }
    client.queue("paused").pause().await.unwrap();
    let later = client.insert(job("a")).queue("later").scheduled_in(Duration::from_secs(60)).await.unwrap();
    let done = insert(&database, "done").await;
    database.set_state(done, "completed").await;
    let statuses = "SELECT string_agg(queue || ': ' || status, ', ' ORDER BY queue) FROM {schema}.queue_status";
    assert_eq!(
        database.text(statuses).await,
        "busy: working, done: idle, idle: idle, later: no runner, limited: at its limit, nobody's: no runner, \
         paused: paused, waits: waiting"
    );
    let row = "SELECT concat_ws(' ', runners, available, running, scheduled, completed, paused_at IS NOT NULL,
            oldest_available_age > interval '0', waiting_are_all, discarded_are_all, last_are_all)
        FROM {schema}.queue_status WHERE queue = 'paused'";
    assert_eq!(database.text(row).await, "1 1 0 0 0 t t t t t");
    let scheduled = "SELECT scheduled FROM {schema}.queue_status WHERE queue = 'later'";
    assert_eq!(database.number(scheduled).await, 1, "{}", later.id());
}

#[support::test]
async fn failing_kind_counts_what_failed_and_shows_the_last_error(database: Database) {
    for (kind, queue, state, error, at) in [
        ("a", "q", "retryable", "first", "2026-02-03T04:05:06.5+00:00"),
        ("a", "q", "discarded", "last", "2026-02-03T04:05:07Z"),
        ("a", "r", "discarded", "second", "2026-02-03T04:05:06.75Z"),
        ("b", "q", "discarded", "by hand", "yesterday"),
        ("c", "q", "completed", "was mended", "2026-02-03T04:05:06Z"),
        ("d", "q", "scheduled", "snoozed since", "2026-02-03T04:05:06Z"),
    ] {
        let id = database.client.insert(job(kind)).queue(queue).await.unwrap().id();
        database.set_state(id, state).await;
        let fail = format!(
            "UPDATE {{schema}}.job SET attempt = 2, errors = '[{{\"error\": \"{error}\", \"at\": \"{at}\"}}]',
                finalized_at = finalized_at - interval '1 day' * CASE WHEN '{error}' = 'last' THEN 0 ELSE 1 END
             WHERE id = '{id}'"
        );
        database.execute(&fail).await;
    }
    let rows = "SELECT string_agg(concat_ws(' ', kind, queues, retryable, discarded, attempts_used, last_error,
            coalesce(to_char(last_failed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS'), 'when?'), are_all), '; ')
        FROM {schema}.failing_kind";
    assert_eq!(database.text(rows).await, "a {q,r} 1 2 6 last 2026-02-03 04:05:07.000 t; b {q} 0 1 2 by hand when? t");
    let mut connection = database.pool().acquire().await.unwrap();
    sqlx::raw_sql("SET standard_conforming_strings = off").execute(&mut *connection).await.unwrap();
    let told: i64 = sqlx::query_scalar(database.sql("SELECT count(last_failed_at) FROM {schema}.failing_kind"))
        .fetch_one(&mut *connection)
        .await
        .unwrap();
    assert_eq!(told, 1, "whatever a backslash means");
    connection.detach();
    // What is looked at is bounded, and the answer says so.
    let bounded = "SELECT string_agg(concat_ws(' ', kind, discarded, are_all), '; ') FROM {schema}.failing_kinds(1)";
    assert_eq!(database.text(bounded).await, "a 0 f; b 1 f");
}
