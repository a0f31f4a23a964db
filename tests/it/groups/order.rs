//! Jobs in order: one at a time, and none overtakes one that began.

use std::time::Duration;

use uniqueue::{NewJob, OnConflict, UniqueKey};

use super::{assert_limits_were_kept, with_history};
use crate::chaos::process::{Order, RunnerProcess};
use crate::chaos::work::{Deed, Work};
use crate::support::{Database, soak};

const LEFT: &str = "SELECT count(*) FROM {schema}.job WHERE finalized_at IS NULL";

fn line(group: usize, deed: Deed) -> NewJob {
    NewJob::from(Work { deed, millis: 1 }).group(format!("line {group}")).in_order()
}

/// Asserts that the jobs of each group began in the order of their ids.
async fn assert_order_was_kept(database: &Database) {
    let overtaken = "SELECT count(*)
        FROM (
            SELECT job, lag(job) OVER (PARTITION BY group_key ORDER BY min(n)) AS before
            FROM {schema}.history WHERE is_start GROUP BY group_key, job
        ) AS h
        WHERE h.before > h.job";
    assert_eq!(database.number(overtaken).await, 0, "jobs that were overtaken");
    assert_limits_were_kept(database).await;
}

#[tokio::test]
async fn a_job_that_began_is_first_until_it_is_final_through_retries_and_snoozes() {
    let database = with_history().await;
    let groups = soak(5, 50);
    let deeds = [Deed::Plain, Deed::Fail, Deed::Snooze, Deed::Panic, Deed::Discard, Deed::Cancel, Deed::Effect];
    database.execute("CREATE TABLE {schema}.effect (job uuid, attempt smallint)").await;
    let jobs = (0..groups * soak(14, 28)).map(|n| line(n % groups, deeds[n / groups % deeds.len()]));
    database.client.insert_many(jobs).await.unwrap();
    let runners: Vec<_> =
        (0..3).map(|n| RunnerProcess::start(&Order::new(&database.url, &database.schema, &format!("r{n}")))).collect();
    database.until(LEFT, 0).await;
    drop(runners);
    assert_order_was_kept(&database).await;
}

#[tokio::test]
async fn a_line_keeps_its_order_when_runners_are_killed() {
    let database = with_history().await;
    let jobs = (0..soak(60, 600)).map(|n| line(n % 4, Deed::Plain));
    database.client.insert_many(jobs).await.unwrap();
    let order = |n: usize| Order {
        lease: Duration::from_secs(1),
        ..Order::new(&database.url, &database.schema, &format!("r{n}"))
    };
    let mut runners: Vec<_> = (0..2).map(|n| RunnerProcess::start(&order(n))).collect();
    for n in 2..soak(5, 20) {
        database.until("SELECT least(count(*), 1) FROM {schema}.history", 1).await;
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
    database
        .execute("UPDATE {schema}.job SET state = 'retryable', began = 1, run = 1, attempt = 1, scheduled_at = now() + interval '1 hour'")
        .await;
    database.client.insert(line(1, Deed::Plain).priority(100)).await.unwrap();
    first
}

#[tokio::test]
async fn a_successor_by_replace_inherits_the_place_of_a_head_that_began() {
    let database = with_history().await;
    let first = began(&database).await;
    database.client.insert(first).await.unwrap();
    let _runner = RunnerProcess::start(&Order::new(&database.url, &database.schema, "r"));
    database.until(LEFT, 0).await;
    let order = "SELECT string_agg(j.priority::text, ' ' ORDER BY h.n)
        FROM {schema}.history AS h JOIN {schema}.job AS j ON j.id = h.job WHERE h.is_start";
    assert_eq!(database.text(order).await, "0 100");
}
