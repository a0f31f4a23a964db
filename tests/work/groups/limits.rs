//! The limits of groups: never more jobs than allowed, and no place free for long.

use super::{HISTORY, assert_kept, assert_limits_were_kept};
use support::prelude::*;

/// Jobs of groups with limits 1 to 5, two fifths of which fail now and then, or snooze. Each takes up to `millis`.
pub(super) fn work(groups: usize, jobs: usize, millis: u64) -> Vec<NewJob> {
    (0..jobs)
        .map(|n| {
            let group = n % groups;
            let deed = match n / groups % 5 {
                3 => Deed::Fail,
                4 => Deed::Snooze,
                _ => Deed::Plain,
            };
            let millis = n as u64 % millis;
            NewJob::from(Work { deed, millis }).group(format!("g{group}")).group_limit((group % 5 + 1) as u16)
        })
        .collect()
}

pub(super) const LEFT: &str = "SELECT count(*) FROM {schema}.job WHERE finalized_at IS NULL";

/// Held by a test that measures a time, and by one whose many processes would lengthen it.
static PROCESSOR: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test]
async fn never_more_jobs_of_a_group_run_than_its_limit_with_several_runners() {
    let _processor = PROCESSOR.lock().await;
    let database = Database::with(HISTORY).await;
    database.client.insert_many(work(soak(20, 1_000), soak(600, 20_000), 7)).await.unwrap();
    let runners = RunnerProcess::several(&database, soak(3, 16));
    // Limits change meanwhile: what starts after the change keeps to it.
    for round in 0..20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let limit = format!(
            "INSERT INTO {{schema}}.queue (name, max_per_group) VALUES ('default', {})
            ON CONFLICT (name) DO UPDATE SET max_per_group = excluded.max_per_group",
            if round % 3 == 2 { "NULL".to_owned() } else { (round % 5 + 1).to_string() }
        );
        database.execute(&limit).await;
    }
    database.until(LEFT, 0).await;
    drop(runners);
    let broken = "SELECT count(*) FROM {schema}.start_log WHERE is_start AND running > allowed";
    assert_eq!(database.number(broken).await, 0, "starts beyond the limit");
}

#[tokio::test]
async fn a_place_that_a_job_frees_is_filled_at_once() {
    let _processor = PROCESSOR.lock().await;
    let database = Database::with(HISTORY).await;
    let jobs = (0..200).map(|_| NewJob::from(Work { deed: Deed::Plain, millis: 0 }).group("one").group_limit(1));
    database.client.insert_many(jobs).await.unwrap();
    let _runner = RunnerProcess::start(&Order::of(&database, "r"));
    database.until(LEFT, 0).await;
    let gaps =
        "FROM (SELECT at - lag(at) OVER (ORDER BY n) AS gap, is_start FROM {schema}.start_log) AS h WHERE is_start";
    let longest = database.number(&format!("SELECT max(extract(epoch FROM gap) * 1000)::bigint {gaps}")).await;
    assert!(longest < 1_000, "a place was free for {longest} ms");
    let took = "SELECT (extract(epoch FROM max(at) - min(at)) * 1000)::bigint FROM {schema}.start_log";
    let took = database.number(took).await;
    assert!(took < 8_000, "200 jobs took {took} ms");
    // A poll would fill most places after a second.
    let most = "SELECT percentile_disc(0.9) WITHIN GROUP (ORDER BY (extract(epoch FROM gap) * 1000)::bigint)";
    let most = database.number(&format!("{most} {gaps}")).await;
    assert!(most < 500, "a tenth of the places were free for {most} ms and more");
    assert_limits_were_kept(&database).await;
}

#[support::test(with(HISTORY))]
async fn no_place_is_free_for_a_second_in_many_groups_and_runners(database: Database) {
    let groups = soak(10, 20);
    let jobs = (0..soak(400, 2_000))
        .map(|n| NewJob::from(Work { deed: Deed::Plain, millis: 5 }).group(format!("g{}", n % groups)).group_limit(2));
    database.client.insert_many(jobs).await.unwrap();
    // As many slots as places.
    let order = |n| Order { concurrency: groups / 2, ..Order::of(&database, n) };
    let runners = ["a", "b", "c", "d"].map(|n| RunnerProcess::start(&order(n)));
    database.until(LEFT, 0).await;
    drop(runners);
    let longest = "SELECT max(extract(epoch FROM gap) * 1000)::bigint
        FROM (
            SELECT lead(at) OVER (PARTITION BY group_key ORDER BY n) - at AS gap, is_start,
                lead(is_start) OVER (PARTITION BY group_key ORDER BY n) AS is_start_next
            FROM {schema}.start_log
        ) AS h
        WHERE NOT is_start AND is_start_next";
    let longest = database.number(longest).await;
    assert!(longest < soak(1_000, 2_000), "a place was free for {longest} ms");
    assert_limits_were_kept(&database).await;
}

#[support::test(with(HISTORY))]
async fn an_operator_who_cancels_or_deletes_a_job_frees_its_place(database: Database, client: &Client) {
    let job = |n: i16| NewJob::from(Work { deed: Deed::Plain, millis: 0 }).group("one").group_limit(1).priority(n);
    let held = client.insert_many([job(2), job(1), job(0)]).await.unwrap();
    let run = |id| format!("UPDATE {{schema}}.job SET state = 'running', worker = gen_random_uuid() WHERE id = '{id}'");
    database.execute(&run(held[0].id())).await;
    let chosen = "SELECT cardinality(ids)::bigint
        FROM {schema}._jobs_of_groups('default', '{deed}', 5, 0, false, '{}', 10, '', '{}')";
    assert_eq!(database.number(chosen).await, 0);
    client.cancel(held[0].id()).await.unwrap();
    assert_eq!(database.number(chosen).await, 1, "the cancelled job's place");
    database.execute(&run(held[1].id())).await;
    assert_eq!(database.number(chosen).await, 0);
    client.cancel(held[1].id()).await.unwrap();
    client.delete(held[1].id()).await.unwrap();
    assert_eq!(database.number(chosen).await, 1);
}

#[support::test]
async fn blocked_groups_keep_no_other_job_from_its_turn(database: Database) {
    // A job of each group runs for ever.
    let insert = "INSERT INTO {schema}.job (id, kind, group_key, group_limit, args, state, worker)
        SELECT {schema}.new_job_id(), 'deed', 'g' || n % 1000, 1, '{\"deed\": \"plain\", \"millis\": 0}',
            CASE WHEN n < 1000 THEN 'running' ELSE 'available' END::{schema}.job_state,
            CASE WHEN n < 1000 THEN '00000000-0000-7000-8000-000000000001'::uuid END
        FROM generate_series(0, 9999) AS n";
    database.execute(insert).await;
    database.enter_runner(Uuid::from_u128(0x7000_8000_0000_0000_0001), "busy", "{}").await;
    let _runner = RunnerProcess::start(&Order::of(&database, "r"));
    let jobs = || (0..100).map(|_| NewJob::from(Work { deed: Deed::Plain, millis: 0 }).priority(-1));
    database.client.insert_many(jobs()).await.unwrap();
    database.client.insert_many(jobs().map(|job| job.group("zz"))).await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 200).await;
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE state = 'running'").await, 1_000);
}

#[support::test]
async fn a_fetch_counts_the_jobs_of_a_group_under_the_lock_of_its_queue(database: Database) {
    const CHOSEN: &str = "SELECT cardinality(ids)::bigint
        FROM {schema}._jobs_of_groups('default', '{deed}', 5, 0, false, '{}', 10, '', '{}')";
    // Its row is there: a fetch that made it would hold the other one up by that alone.
    database.client.queue("default").set(QueueChanges::new().fair(false)).await.unwrap();
    let job = || NewJob::from(Work { deed: Deed::Plain, millis: 0 }).group("one").group_limit(1);
    let first = database.client.insert(job()).await.unwrap().id();
    let mut fetch = database.pool().begin().await.unwrap();
    let chosen: i64 = sqlx::query_scalar(database.sql(CHOSEN)).fetch_one(&mut *fetch).await.unwrap();
    assert_eq!(chosen, 1);
    // It comes before the chosen job, whose row's lock says nothing about it.
    database.client.insert(job().priority(1)).await.unwrap();
    assert_eq!(database.number(CHOSEN).await, 0, "the other fetch has counted, and has not started its job yet");
    let start = format!("UPDATE {{schema}}.job SET state = 'running', worker = gen_random_uuid() WHERE id = '{first}'");
    sqlx::query(database.sql(&start)).execute(&mut *fetch).await.unwrap();
    fetch.commit().await.unwrap();
    assert_eq!(database.number(CHOSEN).await, 0, "the place is taken");
    database.set_state(first, "completed").await;
    assert_eq!(database.number(CHOSEN).await, 1);
}

#[support::test]
async fn groups_need_read_committed(database: Database) {
    let mut tx = database.pool().begin().await.unwrap();
    sqlx::raw_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").execute(&mut *tx).await.unwrap();
    let lock = sqlx::query(database.sql("SELECT FROM {schema}._lock_queue('default')")).execute(&mut *tx).await;
    assert!(lock.unwrap_err().to_string().contains("READ COMMITTED"));
}

const SCHEMA: &str = "uniqueue";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_and_order_hold_while_runners_are_killed_and_the_database_restarts() {
    hold(Cluster::start("groups").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_and_order_hold_under_icu_and_serializable_and_with_a_clock_that_jumps() {
    hold(Cluster::start_odd("odd-groups").await).await;
}

async fn hold(mut cluster: Cluster) {
    let mut dice = Dice::new(std::process::id().into(), 7);
    let sql = |text: &str| AssertSqlSafe(text.replace("{schema}", SCHEMA));
    sqlx::raw_sql(sql(HISTORY)).execute(&cluster.direct).await.unwrap();
    let jobs = work(soak(40, 1_000), soak(600, 8_000), soak(300, 100)).into_iter().enumerate();
    // Every fifth group has the limit 1, and runs in order.
    let jobs = jobs.map(|(n, job)| if n % 5 == 0 { job.in_order() } else { job });
    Client::new(cluster.direct.clone()).insert_many(jobs).await.unwrap();

    let url = cluster.proxy.url();
    let order = |n: usize| Order {
        // As long as a processor may be taken from one of many processes.
        lease: Duration::from_secs(soak(1, 4)),
        connections: 2,
        ..Order::new(&url, SCHEMA, &format!("r{n}"))
    };
    let mut runners: Vec<_> = (0..soak(3, 16)).map(|n| RunnerProcess::start(&order(n))).collect();
    // A runner that is killed before it is at work leaves nothing to rescue.
    let at_work = i64::try_from(runners.len()).unwrap();
    eventually!(
        let there = sqlx::query_scalar::<_, i64>(sql("SELECT count(*) FROM {schema}.runner"))
            .fetch_one(&cluster.direct).await.unwrap();
        there == at_work, "{there} runners are there"
    );
    for fault in 0..soak(6, 18) {
        tokio::time::sleep(Duration::from_millis(300)).await;
        if let Some(clock) = &cluster.clock {
            clock.jump(&mut dice);
        }
        let limit = [None, Some(1), Some(4), Some(2), Some(5), Some(3)][fault % 6];
        Client::new(cluster.direct.clone()).queue("default").set(QueueChanges::new().group_limit(limit)).await.unwrap();
        if fault % 3 == 2 {
            cluster.restart().await;
        } else {
            let place = fault % runners.len();
            runners[place].kill();
            runners[place] = RunnerProcess::start(&order(runners.len() + fault));
        }
    }
    let number = async |text: &str| -> i64 { sqlx::query_scalar(sql(text)).fetch_one(&cluster.direct).await.unwrap() };
    if let Some(clock) = &cluster.clock {
        clock.jump_ahead_of_all();
    }
    assert!(number(LEFT).await > 0, "the faults came while there was work");
    Client::new(cluster.direct.clone()).queue("default").set(QueueChanges::new().group_limit(None)).await.unwrap();
    eventually!(let left = number(LEFT).await; left == 0, "{left} jobs are left");
    drop(runners);
    assert_kept(&cluster.direct, SCHEMA).await;
    let full = "SELECT count(DISTINCT allowed) FROM {schema}.start_log WHERE is_start AND running = allowed";
    let full = number(full).await;
    assert!(full >= soak(3, 5), "some group came to each of {full} limits");
    for (what, happened) in [
        ("snoozes", "SELECT count(*) FROM {schema}.start_log WHERE state = 'scheduled'"),
        ("rescues", "SELECT count(*) FROM {schema}.job WHERE errors::text LIKE '%rescued: %'"),
        ("rescues in order", "SELECT count(*) FROM {schema}.job WHERE in_order AND errors::text LIKE '%rescued: %'"),
    ] {
        assert!(number(happened).await > 0, "no {what}");
    }
    cluster.stop().await;
}
