//! Turns: one tenant's backlog cannot starve another's.

use super::{HISTORY, assert_limits_were_kept};
use support::prelude::*;

fn work(group: usize) -> NewJob {
    NewJob::from(Work { deed: Deed::Plain, millis: 1 }).group(format!("tenant {group}"))
}

#[support::test(with(HISTORY))]
async fn under_a_backlog_each_of_ten_tenants_gets_its_tenth(database: Database) {
    let each = soak(60, 500);
    let settings = database.client.queue("default").set(QueueChanges::new().fair(true)).await.unwrap();
    assert!(settings.fair);
    // One tenant has a hundred times as much as the others, and came first.
    database.client.insert_many((0..100 * each).map(|_| work(0))).await.unwrap();
    let others = (0..9 * each).map(|n| work(1 + n % 9));
    database.client.insert_many(others).await.unwrap();
    let order = |name| Order { concurrency: 5, ..Order::of(&database, name) };
    let runners = ["r0", "r1"].map(|name| RunnerProcess::start(&order(name)));
    let done = "SELECT count(*) FROM {schema}.job WHERE group_key <> 'tenant 0' AND state = 'completed'";
    database.until(&format!("SELECT least({}, ({done}))", 8 * each), 8 * each as i64).await;
    drop(runners);
    // Of the jobs that started until the first of the nine had none left.
    let shares = "WITH last AS (
            SELECT min(n) AS n
            FROM (SELECT group_key, max(n) AS n FROM {schema}.start_log WHERE is_start AND group_key <> 'tenant 0' GROUP BY 1) AS h
        )
        SELECT h.group_key, (count(*) * 1000 / sum(count(*)) OVER ())::bigint
        FROM {schema}.start_log AS h, last
        WHERE h.is_start AND h.n <= last.n
        GROUP BY h.group_key";
    let shares: Vec<(String, i64)> = sqlx::query_as(database.sql(shares)).fetch_all(database.pool()).await.unwrap();
    assert_eq!(shares.len(), 10);
    assert!(shares.iter().all(|(_, share)| (80..=120).contains(share)), "of 1000 jobs each got {shares:?}");
    assert_limits_were_kept(&database).await;
}

#[support::test(with(HISTORY))]
async fn jobs_without_a_group_are_one_more_group_where_the_queue_is_fair(database: Database) {
    database.client.queue("default").set(QueueChanges::new().fair(true)).await.unwrap();
    let plain = (0..200).map(|_| NewJob::from(Work { deed: Deed::Plain, millis: 0 }));
    database.client.insert_many(plain).await.unwrap();
    database.client.insert_many((0..20).map(|n| work(n % 2))).await.unwrap();
    let _runner = RunnerProcess::start(&Order { concurrency: 3, ..Order::of(&database, "r") });
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 220).await;
    let before = "SELECT count(*) FROM {schema}.job
        WHERE group_key IS NULL
            AND attempted_at < (SELECT max(attempted_at) FROM {schema}.job WHERE group_key IS NOT NULL)";
    let before = database.number(before).await;
    assert!((5..=40).contains(&before), "{before} jobs without a group ran before the last of the groups");
}

#[support::test(with(HISTORY))]
async fn the_limit_of_each_group_of_a_queue_changes_live(database: Database) {
    let settings = database.client.queue("default").set(QueueChanges::new().group_limit(Some(2))).await.unwrap();
    assert_eq!(settings.group_limit, Some(2));
    for refused in [0, u32::MAX] {
        database.client.queue("default").set(QueueChanges::new().group_limit(Some(refused))).await.unwrap_err();
    }
    let jobs = (0..60).map(|n| NewJob::from(Work { deed: Deed::Plain, millis: 20 }).group(format!("g{}", n % 2)));
    database.client.insert_many(jobs).await.unwrap();
    let _runner = RunnerProcess::start(&Order::of(&database, "r"));
    database.until("SELECT least(count(*), 1) FROM {schema}.start_log", 1).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    database.client.queue("default").set(QueueChanges::new().group_limit(Some(5))).await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 60).await;
    let broken = "SELECT count(*) FROM {schema}.start_log WHERE is_start AND running > allowed";
    assert_eq!(database.number(broken).await, 0);
    assert_eq!(database.number("SELECT max(running) FROM {schema}.start_log WHERE allowed = 5").await, 5);
}

/// What the groups of the default queue give to fetches of one job of the kind `work`, each of which visits ten groups at
/// a priority and then one that was freed. Ends with the first fetch that gives this job, and answers how many there were.
async fn fetches_until(database: &Database, wanted: JobId, freed: &str) -> usize {
    let mut after = String::new();
    for fetches in 1..=20 {
        let fetch = "SELECT ids, reached FROM {schema}._jobs_of_groups('default', '{work}', 1, 4, false, '{}', 10, $1, ARRAY[$2])";
        let (ids, reached): (Vec<Uuid>, String) =
            sqlx::query_as(database.sql(fetch)).bind(after).bind(freed).fetch_one(database.pool()).await.unwrap();
        if ids.contains(&wanted.as_uuid()) {
            return fetches;
        }
        after = reached;
    }
    panic!("never")
}

#[support::test]
async fn a_group_behind_very_many_blocked_ones_has_its_turn(database: Database, client: &Client) {
    let work = || NewJob::new("work", &json!({}));
    // No runner of the kind: they may not start.
    let blocked = |group: String| NewJob::new("unknown", &json!({})).group(group);
    client.insert_many((0..35).map(|n| blocked(format!("g{n:02}")).priority(1))).await.unwrap();
    let last = client.insert(work().group("g99").priority(1)).await.unwrap().id();
    assert_eq!(fetches_until(&database, last, "none").await, 4);
    // A level of few groups below, and a group that is freed again and again, send no fetch back.
    client.insert(blocked("a".to_owned())).await.unwrap();
    client.insert(work().group("b").priority(1)).await.unwrap();
    assert_eq!(fetches_until(&database, last, "none").await, 5);
    assert_eq!(fetches_until(&database, last, "b").await, 5);
    // Neither does a level of many groups.
    client.insert_many((0..35).map(|n| blocked(format!("f{n:02}")))).await.unwrap();
    assert!(fetches_until(&database, last, "none").await <= 10);
}

#[support::test]
async fn a_group_that_waits_at_many_priorities_stops_no_other(database: Database, client: &Client) {
    client
        .insert_many((1..=300).map(|n| NewJob::new("unknown", &json!({})).group("blocked").priority(n)))
        .await
        .unwrap();
    let other = client.insert(NewJob::new("work", &json!({})).group("other")).await.unwrap().id();
    assert_eq!(fetches_until(&database, other, "none").await, 1);
}

#[support::test(with(HISTORY))]
async fn locked_jobs_without_a_group_take_no_place_from_one(database: Database) {
    let plain = (0..20).map(|_| NewJob::from(Work { deed: Deed::Plain, millis: 0 }));
    database.client.insert_many(plain).await.unwrap();
    let tx = database.begin("SELECT id FROM {schema}.job FOR UPDATE").await;
    database.client.insert(work(1)).await.unwrap();
    let _runner = RunnerProcess::start(&Order { concurrency: 2, ..Order::of(&database, "r") });
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 1).await;
    tx.rollback().await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 21).await;
}

#[support::test(with(HISTORY))]
async fn a_place_that_is_freed_elsewhere_among_very_many_blocked_groups_is_found(database: Database) {
    const GROUPS: usize = 10_000;
    database.enter_runner(Uuid::now_v7(), "other", "{other}").await;
    let running = format!(
        "INSERT INTO {{schema}}.job (id, kind, group_key, group_limit, state, worker, attempt, run, attempted_at)
        SELECT {{schema}}.new_job_id(), 'other', 'g' || n, 1, 'running', r.id, 1, 1, now()
        FROM {{schema}}.runner AS r, generate_series(1, {GROUPS}) AS n"
    );
    database.execute(&running).await;
    let waiting = |n| NewJob::from(Work { deed: Deed::Plain, millis: 0 }).group(format!("g{n}")).group_limit(1);
    database.client.insert_many((1..=GROUPS).map(waiting)).await.unwrap();
    let _runner = RunnerProcess::start(&Order::of(&database, "r"));
    let mut waits = Vec::new();
    for n in 1..=7 {
        // Groups in backward order, so that most others are visited before each.
        let free = format!(
            "UPDATE {{schema}}.job SET state = 'completed', finalized_at = now()
            WHERE group_key = 'g{}' AND state = 'running'",
            9_999 - n * 1_234
        );
        let began = Instant::now();
        database.execute(&free).await;
        database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND kind <> 'other'", n).await;
        waits.push(began.elapsed());
    }
    waits.sort_unstable();
    // Less than a second, on a machine that does nothing else. Without an end of the pauses it takes six.
    assert!(waits[3] < Duration::from_secs(4), "{waits:?}");
}
