//! The rate of a queue.

use super::{HISTORY, LEFT, assert_rate_was_kept, took, work};
use support::prelude::*;

fn runners(database: &Database, count: usize) -> Vec<RunnerProcess> {
    let order = |n: usize| Order { lease: SECOND, ..Order::of(database, &format!("r{n}")) };
    (0..count).map(|n| RunnerProcess::start(&order(n))).collect()
}

#[support::test(with(HISTORY))]
async fn never_more_jobs_start_than_the_rate_allows_with_several_runners(database: Database) {
    let rate = Rate::per(200, SECOND).burst(20);
    database.client.queue("default").set(QueueChanges::new().rate(Some(rate))).await.unwrap();
    let jobs = soak(400, 4_000);
    database.client.insert_many((0..jobs).map(|_| work(1))).await.unwrap();
    let runners = runners(&database, soak(3, 8));
    database.until(LEFT, 0).await;
    drop(runners);
    assert_rate_was_kept(&database, rate, "h.queue", "true").await;
    // Tokens are not lost: jobs that waited for them start late, and the next ones make up for it.
    let least = (jobs as i64 - 20) * 1_000 / 200;
    let took = took(&database).await;
    assert!((least - 50..least * 3 / 2 + 1_000).contains(&took), "{jobs} jobs took {took} ms, at least {least}");
}

#[support::test(with(HISTORY))]
async fn a_rate_without_a_burst_spaces_starts_evenly(database: Database) {
    let rate = Rate::per(2, SECOND).burst(1);
    database.client.queue("default").set(QueueChanges::new().rate(Some(rate))).await.unwrap();
    database.client.insert_many((0..6).map(|_| work(0))).await.unwrap();
    let runners = runners(&database, 2);
    database.until(LEFT, 0).await;
    drop(runners);
    assert_rate_was_kept(&database, rate, "h.queue", "true").await;
    let longest = "SELECT max(extract(epoch FROM gap) * 1000)::bigint
        FROM (SELECT at - lag(at) OVER (ORDER BY n) AS gap FROM {schema}.start_log) AS h";
    let longest = database.number(longest).await;
    assert!(longest < 1_500, "a token was free for {} ms", longest - 500);
}

#[support::test(with(HISTORY))]
async fn a_rate_holds_while_runners_are_killed(database: Database) {
    let rate = Rate::per(50, SECOND);
    let rate = rate.burst(5);
    database.client.queue("default").set(QueueChanges::new().rate(Some(rate))).await.unwrap();
    database.client.insert_many((0..soak(150, 1_500)).map(|_| work(20))).await.unwrap();
    let mut runners = runners(&database, 3);
    for n in 3..soak(8, 40) {
        tokio::time::sleep(Duration::from_millis(300)).await;
        runners[n % 3].kill();
        runners[n % 3] = self::runners(&database, 1).remove(0);
    }
    database.until(LEFT, 0).await;
    drop(runners);
    // Rescued jobs start again, which counts.
    assert_rate_was_kept(&database, rate, "h.queue", "true").await;
}

#[support::test(with(HISTORY))]
async fn a_first_rate_of_a_queue_that_has_settings_lets_the_whole_burst_start(database: Database) {
    let queue = database.client.queue("default");
    queue.limit(Some(100)).await.unwrap();
    // The second rate is a first one again.
    for rate in [Some(Rate::per(9, 3_600 * SECOND)), None, Some(Rate::per(5, 3_600 * SECOND))] {
        queue.set(QueueChanges::new().rate(rate)).await.unwrap();
    }
    database.client.insert_many((0..8).map(|_| work(0))).await.unwrap();
    let runners = runners(&database, 1);
    database.until(LEFT, 3).await;
    drop(runners);
}

#[support::test(with(HISTORY))]
async fn a_rate_changes_live(database: Database, client: &Client) {
    // After the first job the next one waits for an hour.
    client.queue("default").set(QueueChanges::new().rate(Some(Rate::per(1, HOUR)))).await.unwrap();
    client.insert_many((0..300).map(|_| work(0))).await.unwrap();
    let runners = runners(&database, 2);
    database.until("SELECT count(*) FROM {schema}.start_log", 1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(database.number("SELECT count(*) FROM {schema}.start_log").await, 1);
    let rate = Rate::per(100, SECOND).burst(10);
    let settings = client.queue("default").set(QueueChanges::new().rate(Some(rate))).await.unwrap();
    assert_eq!(settings.rate, Some(rate));
    database.until("SELECT least(count(*), 100) FROM {schema}.start_log", 100).await;
    let settings = client.queue("default").set(QueueChanges::new().rate(None)).await.unwrap();
    assert_eq!(settings.rate, None);
    let changed_at = database.text("SELECT clock_timestamp()::text").await;
    database.until(LEFT, 0).await;
    drop(runners);
    let before = format!("h.at < '{changed_at}'::timestamptz - interval '100 ms' AND h.n > 1");
    assert_rate_was_kept(&database, rate, "h.queue", &before).await;
    assert!(took(&database).await < 8_000, "the old rate holds nothing up");
}

#[support::test(with(HISTORY))]
async fn queues_without_a_rate_go_on_beside_one_that_waits(database: Database, client: &Client) {
    client.queue("default").set(QueueChanges::new().rate(Some(Rate::per(1, HOUR)))).await.unwrap();
    client.insert_many((0..50).map(|n| work(0).queue(if n < 10 { "default" } else { "other" }))).await.unwrap();
    let runners = runners(&database, 1);
    database.until("SELECT count(*) FROM {schema}.job WHERE queue = 'other' AND state = 'completed'", 40).await;
    drop(runners);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.start_log WHERE queue = 'default'").await, 1);
    // Nothing is rewritten: the others wait as they were.
    let waiting = "SELECT count(*) FROM {schema}.job
        WHERE queue = 'default' AND state = 'available' AND run = 0 AND attempt = 0";
    assert_eq!(database.number(waiting).await, 9);
}

#[support::test(with(HISTORY))]
async fn a_job_that_is_given_back_gives_no_token_back(database: Database, client: &Client) {
    client.queue("default").set(QueueChanges::new().rate(Some(Rate::per(3, HOUR)))).await.unwrap();
    client.insert_many((0..5).map(|_| work(60_000))).await.unwrap();
    let runner = Runner::new(client.clone()).queue("default", 2).stop_timeout(Duration::ZERO);
    let runner = runner.stop_grace(Duration::ZERO).worker(|_: RunningJob<Work>| std::future::pending::<()>());
    let handle = runner.start().await.unwrap();
    database.until("SELECT count(*) FROM {schema}.start_log", 2).await;
    handle.stop().await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'available'", 5).await;
    let runners = runners(&database, 1);
    database.until("SELECT count(*) FROM {schema}.start_log", 3).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(runners);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.start_log").await, 3);
}

#[support::test]
async fn a_rate_outside_its_limits_is_refused(database: Database) {
    let queue = database.client.queue("default");
    for rate in [Rate::per(0, SECOND), Rate::per(1, Duration::ZERO), Rate::per(1, SECOND).burst(0)] {
        for changes in [QueueChanges::new().rate(Some(rate)), QueueChanges::new().group_rate(Some(rate))] {
            let error = queue.set(changes).await.unwrap_err().to_string();
            assert!(error.starts_with("invalid rate: ") || error.starts_with("invalid group_rate: "), "{error}");
        }
    }
    let by_hand = "UPDATE {schema}.queue SET rate_count = 0, rate_period = '1 s', rate_burst = 1";
    queue.set(QueueChanges::new().fair(true)).await.unwrap();
    let (_, refused) = database.refused(by_hand).await;
    assert!(refused.contains("queue_rate_range"), "{refused}");
}

#[support::test]
async fn tokens_are_counted_to_the_microsecond_and_never_in_excess(database: Database) {
    let tokens = "SELECT {schema}._rate_tokens(3, '1 s', 2, '2000-01-01 00:00:00Z'::timestamptz + CAST($1 AS interval), '2000-01-01 00:00:00Z')";
    let mut connection = database.pool().acquire().await.unwrap();
    for (ahead, expected) in [
        ("-1 day", 2),
        ("0", 2),
        ("1 microsecond", 1),
        ("333333 microseconds", 1),
        ("333334 microseconds", 0),
        ("31 days", 0),
    ] {
        let row = sqlx::query_scalar::<_, i32>(database.sql(&tokens.replace("$1", &format!("'{ahead}'"))));
        assert_eq!(row.fetch_one(&mut *connection).await.unwrap(), expected, "{ahead}");
    }
    let time = "SELECT (extract(epoch FROM {schema}._rate_time(1, 3, '1 s')) * 1000000)::bigint";
    assert_eq!(database.number(time).await, 333_334);
}
