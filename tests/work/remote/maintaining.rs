//! Maintenance where no runner of the library lives.

use super::{Remote, bystander};
use support::prelude::*;

#[support::test]
async fn without_any_runner_due_jobs_start_and_final_ones_are_deleted(database: Database) {
    let worker = Remote::new(&database, "w");
    database.client.insert(job("j").scheduled_in(Duration::from_millis(300))).await.unwrap();
    let next_in = "SELECT (extract(epoch FROM next_in) * 1000)::bigint FROM {schema}.maintain('w')";
    let next_in = database.number(next_in).await;
    assert!((20..=300).contains(&next_in), "{next_in}");
    assert!(worker.fetch(1).await.is_empty());
    tokio::time::sleep(Duration::from_millis(next_in as u64 + 5)).await;
    assert_eq!(worker.maintain().await.0, 1);
    let fetched = worker.fetch_one().await;
    worker.complete(&fetched).await;
    // The ids follow time.
    database.execute("UPDATE {schema}.job SET finalized_at = now() - interval '2 days', id = {schema}.id_at(now() - interval '2 days')").await;
    database.execute("UPDATE {schema}.maintenance SET ran_at = NULL").await;
    assert_eq!(worker.maintain().await.2, 1);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

#[support::test]
async fn what_a_queue_or_a_known_runner_keeps_is_not_deleted(database: Database) {
    let worker = Remote::new(&database, "w");
    database.start(bystander(&database).retention(Retention::forever())).await;
    database.execute(
        "INSERT INTO {schema}.job (id, kind, queue, state, finalized_at)
        SELECT {schema}.id_at(now() - interval '8 days' + n * interval '1 ms'), 'j', q, 'completed', now() - interval '8 days'
        FROM generate_series(1, 2500) AS n, unnest(ARRAY['a', 'b']) AS q
        WHERE q = 'a' OR n % 2 = 0
        ON CONFLICT DO NOTHING",
    ).await;
    database.execute("UPDATE {schema}.job SET queue = CASE WHEN random() < 0.5 THEN 'a' ELSE 'b' END").await;
    database.end().await;
    // It died rather than stopped.
    let insert = "INSERT INTO {schema}.runner (id, name, queues, leased_until, knows_groups, keep_completed)
        VALUES (gen_random_uuid(), 'dead', '{}', now() - interval '1 hour', true, '1000 years')";
    database.execute(insert).await;
    database.execute("INSERT INTO {schema}.queue (name, keep_completed) VALUES ('a', '1 hour')").await;
    let kept = database.number("SELECT count(*) FROM {schema}.job WHERE queue = 'b'").await;
    assert!(kept > 0);
    let mut rounds = 0;
    while worker.maintain().await.2 > 0 {
        rounds += 1;
    }
    assert!(rounds >= 1);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, kept);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE queue = 'a'").await, 0);
}

#[support::test(with_connections(10))]
async fn one_of_many_callers_does_the_work_and_another_goes_on_when_it_is_gone(database: Database) {
    database.client.insert_many((0..30).map(|_| job("j").scheduled_in(MINUTE))).await.unwrap();
    let workers: Vec<_> = (0..8).map(|n| Remote::new(&database, &format!("w{n}"))).collect();
    database.pass(MINUTE).await;
    let mut calls = JoinSet::new();
    workers.into_iter().for_each(|worker| drop(calls.spawn(async move { worker.maintain().await.0 })));
    assert_eq!(calls.join_all().await.into_iter().sum::<i64>(), 30);
    let holders = "SELECT count(DISTINCT runner) FROM {schema}.maintenance WHERE leased_until > now()";
    assert!((1..=4).contains(&database.number(holders).await));
    // One that has no lease writes nothing.
    let before = database.text("SELECT string_agg(m::text, ' ') FROM {schema}.maintenance AS m").await;
    Remote::new(&database, "late").maintain().await;
    assert_eq!(database.text("SELECT string_agg(m::text, ' ') FROM {schema}.maintenance AS m").await, before);
    database.execute("UPDATE {schema}.maintenance SET leased_until = now()").await;
    Remote::new(&database, "late").maintain().await;
    assert_eq!(database.number(holders).await, 1);
    assert_eq!(database.text("SELECT min(runner) FROM {schema}.maintenance").await, "late");
}

#[support::test]
async fn a_runner_that_has_the_leases_leaves_nothing_to_do(database: Database) {
    database.start(bystander(&database)).await;
    let held = "SELECT count(*) FROM {schema}.maintenance WHERE service IN ('promoter', 'rescuer', 'pruner')";
    database.until(held, 3).await;
    database.client.insert(job("j").scheduled_in(MINUTE)).await.unwrap();
    database.pass(MINUTE).await;
    assert_eq!(Remote::new(&database, "w").maintain().await.1, 0);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.maintenance WHERE runner = 'w'").await, 0);
}

#[support::test]
async fn a_row_of_refused_jobs_that_is_longer_than_a_batch_holds_up_no_job_behind_it(database: Database) {
    let worker = Remote::new(&database, "w");
    let block = "INSERT INTO {schema}.job (id, kind, state, scheduled_at)
        SELECT {schema}.new_job_id(), 'bad', 'scheduled', now() - interval '1 h' FROM generate_series(1, 1050)";
    database.execute(block).await;
    database.client.insert(job("good").scheduled_in(MINUTE)).await.unwrap();
    database.pass(MINUTE).await;
    database.trigger("BEFORE UPDATE", "OLD.kind = 'bad'", "RAISE 'refused';").await;
    let mut calls = 0;
    while worker.maintain().await.0 == 0 {
        calls += 1;
        assert!(calls < 60, "the good job waits");
    }
}
