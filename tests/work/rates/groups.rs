//! The rate of each group of a queue.

use super::{HISTORY, LEFT, assert_rate_was_kept, work};
use support::prelude::*;

#[support::test(with(HISTORY))]
async fn never_more_jobs_of_a_group_start_than_its_rate_allows_with_several_runners(database: Database) {
    let (rate, of_group) = (Rate::per(150, SECOND).burst(30), Rate::per(40, SECOND).burst(4));
    database.client.queue("default").set(QueueChanges::new().rate(Some(rate))).await.unwrap();
    let settings = database.client.queue("default").set(QueueChanges::new().group_rate(Some(of_group))).await.unwrap();
    assert_eq!((settings.rate, settings.group_rate), (Some(rate), Some(of_group)));
    let groups = 5;
    let jobs = (0..soak(300, 3_000)).map(|n| {
        let job = work(1).priority((n % 2) as i16);
        if n % (groups + 1) == 0 { job } else { job.group(format!("g{}", n % groups)) }
    });
    database.client.insert_many(jobs).await.unwrap();
    let runners = RunnerProcess::several(&database, soak(3, 6));
    database.until(LEFT, 0).await;
    drop(runners);
    assert_rate_was_kept(&database, of_group, "h.group_key", "h.group_key IS NOT NULL").await;
    assert_rate_was_kept(&database, rate, "h.queue", "true").await;
}

#[support::test(with(HISTORY))]
async fn a_group_whose_token_is_due_starts_its_next_job_soon(database: Database) {
    let rate = Rate::per(2, SECOND).burst(1);
    database.client.queue("default").set(QueueChanges::new().group_rate(Some(rate))).await.unwrap();
    database.client.insert_many((0..8).map(|n| work(0).group(format!("g{}", n % 2)))).await.unwrap();
    let _runner = RunnerProcess::start(&Order::of(&database, "r"));
    database.until(LEFT, 0).await;
    assert_rate_was_kept(&database, rate, "h.group_key", "true").await;
    let longest = "SELECT max(extract(epoch FROM gap) * 1000)::bigint
        FROM (SELECT at - lag(at) OVER (PARTITION BY group_key ORDER BY n) AS gap FROM {schema}.start_log) AS h";
    let longest = database.number(longest).await;
    assert!(longest < 1_500, "a token was free for {} ms", longest - 500);
}

#[support::test(with(HISTORY))]
async fn a_group_without_a_token_holds_up_no_other_and_its_order_is_kept(database: Database) {
    database.client.queue("default").set(QueueChanges::new().group_rate(Some(Rate::per(1, HOUR)))).await.unwrap();
    let group = |n: u32| work(0).group(format!("g{n}")).in_order();
    database.client.insert_many((0..60).map(|n| group(n % 20))).await.unwrap();
    database.client.insert_many((0..20).map(|_| work(0))).await.unwrap();
    let _runner = RunnerProcess::start(&Order::of(&database, "r"));
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 40).await;
    let most = "SELECT max(c) FROM (SELECT count(*) AS c FROM {schema}.start_log WHERE group_key IS NOT NULL GROUP BY group_key) AS h";
    assert_eq!(database.number(most).await, 1);
}

#[support::test(with(HISTORY))]
async fn the_rate_of_groups_changes_live(database: Database, client: &Client) {
    client.queue("default").set(QueueChanges::new().group_rate(Some(Rate::per(1, HOUR)))).await.unwrap();
    client.insert_many((0..60).map(|n| work(0).group(format!("g{}", n % 3)))).await.unwrap();
    let _runner = RunnerProcess::start(&Order::of(&database, "r"));
    database.until("SELECT count(*) FROM {schema}.start_log", 3).await;
    let rate = Rate::per(20, SECOND).burst(5);
    client.queue("default").set(QueueChanges::new().group_rate(Some(rate))).await.unwrap();
    database.until("SELECT least(count(*), 30) FROM {schema}.start_log", 30).await;
    client.queue("default").set(QueueChanges::new().group_rate(None)).await.unwrap();
    database.until(LEFT, 0).await;
    let left = "SELECT count(*) FROM {schema}.queue_group WHERE rate_full_at > clock_timestamp()";
    assert_eq!(database.number(left).await, 0, "no rate, no time");
}

#[support::test]
async fn rows_of_groups_whose_times_have_passed_are_pruned(database: Database, client: &Client) {
    let insert = "INSERT INTO {schema}.queue_group (queue, group_key, rate_full_at, held_until)
        SELECT 'default', 'past' || n, now() - interval '1 s', NULL::timestamptz FROM generate_series(1, 2500) AS n
        UNION ALL VALUES ('default', 'held', now() - interval '1 s', now() + interval '1 h')
        UNION ALL VALUES ('default', 'rated', now() + interval '1 h', now() - interval '1 s')
        UNION ALL VALUES ('default', 'nothing', NULL::timestamptz, NULL::timestamptz)";
    database.execute(insert).await;
    let runner = database.runner().queue("default", 1).prune_interval(Duration::from_millis(10));
    database.start(runner.worker(|_: RunningJob<Work>| async {})).await;
    database.until("SELECT count(*) FROM {schema}.queue_group", 2).await;
    database.end().await;
    assert!(client.queue("default").remove().await.is_ok());
    assert_eq!(database.number("SELECT count(*) FROM {schema}.queue_group").await, 0, "removed with the settings");
}
