//! Jobs in order: one at a time, and none overtakes one that began.

use sqlx::postgres::types::PgInterval;

use super::{HISTORY, assert_limits_were_kept};
use support::prelude::*;

const LEFT: &str = "SELECT count(*) FROM {schema}.job WHERE finalized_at IS NULL";

fn line(group: usize, deed: Deed) -> NewJob {
    NewJob::from(Work { deed, millis: 1 }).group(format!("line {group}")).in_order()
}

/// Asserts that the jobs of each group began in the order of their ids.
async fn assert_order_was_kept(database: &Database) {
    let overtaken = "SELECT count(*)
        FROM (
            SELECT job, lag(job) OVER (PARTITION BY group_key ORDER BY min(n)) AS before
            FROM {schema}.start_log WHERE is_start GROUP BY group_key, job
        ) AS h
        WHERE h.before > h.job";
    assert_eq!(database.number(overtaken).await, 0, "jobs that were overtaken");
    assert_limits_were_kept(database).await;
}

#[support::test(with(HISTORY))]
async fn a_job_that_began_is_first_until_it_is_final_through_retries_and_snoozes(database: Database) {
    let groups = soak(5, 50);
    let deeds = [Deed::Plain, Deed::Fail, Deed::Snooze, Deed::Panic, Deed::Discard, Deed::Cancel, Deed::Effect];
    database.execute("CREATE TABLE {schema}.effect (job uuid, attempt smallint)").await;
    let jobs = (0..groups * soak(14, 28)).map(|n| line(n % groups, deeds[n / groups % deeds.len()]));
    database.client.insert_many(jobs).await.unwrap();
    let runners = RunnerProcess::several(&database, 3);
    database.until(LEFT, 0).await;
    drop(runners);
    assert_order_was_kept(&database).await;
}

#[support::test(with(HISTORY))]
async fn a_line_keeps_its_order_when_runners_are_killed(database: Database) {
    let deeds = [Deed::Plain, Deed::Fail, Deed::Snooze];
    let jobs = (0..soak(60, 300)).map(|n| line(n % 4, deeds[n / 4 % 3]));
    database.client.insert_many(jobs).await.unwrap();
    let order = |n: usize| Order { lease: Duration::from_secs(1), ..Order::of(&database, &format!("r{n}")) };
    let mut runners: Vec<_> = (0..2).map(|n| RunnerProcess::start(&order(n))).collect();
    for n in 2..soak(5, 20) {
        database.until("SELECT least(count(*), 1) FROM {schema}.start_log", 1).await;
        runners[n % 2].kill();
        runners[n % 2] = RunnerProcess::start(&order(n));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    database.until(LEFT, 0).await;
    drop(runners);
    assert_order_was_kept(&database).await;
}

/// A line whose first job began and waits for its next attempt.
async fn began(database: &Database) -> NewJob {
    let first = line(1, Deed::Plain).unique_key(UniqueKey::raw("first").on_conflict(OnConflict::Replace));
    database.client.insert(first.clone()).await.unwrap();
    let update = "UPDATE {schema}.job SET state = 'retryable', began = 1, run = 1, attempt = 1, scheduled_at = now() + interval '1 hour'";
    database.execute(update).await;
    database.client.insert(line(1, Deed::Plain).priority(100)).await.unwrap();
    first
}

#[support::test(with(HISTORY))]
async fn a_successor_by_replace_inherits_the_place_of_a_head_that_began(database: Database) {
    let first = began(&database).await;
    database.client.insert(first).await.unwrap();
    let _runner = RunnerProcess::start(&Order::of(&database, "r"));
    database.until(LEFT, 0).await;
    let order = "SELECT string_agg(j.priority::text, ' ' ORDER BY h.n)
        FROM {schema}.start_log AS h JOIN {schema}.job AS j ON j.id = h.job WHERE h.is_start";
    assert_eq!(database.text(order).await, "0 100");
}

#[support::test(with(HISTORY))]
async fn a_successor_by_replace_of_a_head_that_has_not_begun_takes_a_place_of_its_own(database: Database) {
    let first = || line(1, Deed::Plain).unique_key(UniqueKey::raw("first").on_conflict(OnConflict::Replace));
    database.client.insert(first()).await.unwrap();
    let second = database.client.insert(line(1, Deed::Plain)).await.unwrap().id();
    let successor = database.client.insert(first()).await.unwrap();
    assert!(successor.replaced.is_some());
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE began IS NOT NULL").await, 0);
    let _runner = RunnerProcess::start(&Order::of(&database, "r"));
    database.until(LEFT, 0).await;
    let order = "SELECT string_agg(h.job::text, ' ' ORDER BY h.n) FROM {schema}.start_log AS h WHERE h.is_start";
    assert_eq!(database.text(order).await, format!("{second} {}", successor.id()));
}

#[support::test(with(HISTORY))]
async fn an_operator_s_retry_of_a_final_job_puts_it_into_the_line_as_a_new_one(database: Database, client: &Client) {
    let first = client.insert(line(1, Deed::Cancel)).await.unwrap().id();
    let mut runner = RunnerProcess::start(&Order::of(&database, "r"));
    database.until(LEFT, 0).await;
    // After a kill the server may still be at work on a fetch.
    runner.signal("TERM");
    runner.ended().await;
    let before = client.insert(line(1, Deed::Plain).priority(100)).await.unwrap().id();
    client.retry(first).await.unwrap();
    assert_eq!(
        database.number("SELECT count(*) FROM {schema}.job WHERE began IS NOT NULL AND finalized_at IS NULL").await,
        0
    );
    let _runner = RunnerProcess::start(&Order::of(&database, "r"));
    database.until(LEFT, 0).await;
    let started = "SELECT string_agg(job::text, ' ' ORDER BY n) FROM {schema}.start_log WHERE is_start";
    assert_eq!(database.text(started).await, format!("{first} {before} {first}"));
}

#[support::test(with(HISTORY))]
async fn a_job_that_is_given_back_from_its_first_run_has_not_begun(database: Database) {
    let id = database.client.insert(line(1, Deed::Plain)).await.unwrap().id();
    let worker = Uuid::now_v7();
    let statements = database.client.statements_text();
    let finish = statements.into_iter().find(|(name, _)| *name == "finish").unwrap().1;
    let cases = [
        (1, 1, "give_back", None),
        (2, 1, "give_back", Some(1)),
        (3, 3, "give_back", None),
        (4, 4, "interrupt", Some(4)),
    ];
    for (run, began, outcome, left) in cases {
        let running = format!(
            "UPDATE {{schema}}.job SET state = 'running', worker = '{worker}', attempt = 1, run = {run}, began = {began}"
        );
        database.execute(&running).await;
        let (none, empty) = (vec![None::<String>], vec![None::<Value>]);
        sqlx::query(AssertSqlSafe(finish.clone()))
            .bind(worker)
            .bind(None::<String>)
            .bind(vec![id.as_uuid()])
            .bind(vec![run])
            .bind(vec![outcome])
            .bind(vec![None::<PgInterval>])
            .bind(none)
            .bind(empty.clone())
            .bind(empty.clone())
            .bind(empty)
            .execute(database.pool())
            .await
            .unwrap();
        let found: (String, Option<i32>) = sqlx::query_as(database.sql("SELECT state::text, began FROM {schema}.job"))
            .fetch_one(database.pool())
            .await
            .unwrap();
        assert_eq!(found, ("available".to_owned(), left), "after run {run}, {outcome}");
    }
}
