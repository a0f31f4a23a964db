//! Fetches past many jobs that cannot run.

use support::prelude::*;
use support::wanted;

/// A runner of tasks in a queue with so many jobs of another kind at its head that a walk past them is dear.
async fn past_many(database: &Database) -> mpsc::UnboundedReceiver<u32> {
    let others = "INSERT INTO {schema}.job (id, kind, priority, scheduled_at)
        SELECT gen_random_uuid(), 'other', n % 3, now() - interval '1 day' FROM generate_series(1, 60000) AS n";
    database.execute(others).await;
    let (work, works) = telling(|job| job.args.n);
    let runner = database.runner().queue("default", 100).poll_interval(Duration::from_millis(20));
    database.start(runner.worker(work)).await;
    works
}

#[support::test]
async fn whatever_appears_behind_where_a_fetch_came_to_is_found_all_the_same(database: Database, client: &Client) {
    let mut works = past_many(&database).await;
    client.insert(Task { n: 0 }).await.unwrap();
    assert_eq!(next(&mut works).await, 0);
    // Committed after jobs that were inserted later.
    let mut tx = client.pool().begin().await.unwrap();
    client.insert(Task { n: 1 }).tx(&mut tx).await.unwrap();
    client.insert(Task { n: 2 }).await.unwrap();
    assert_eq!(next(&mut works).await, 2);
    tx.commit().await.unwrap();
    assert_eq!(next(&mut works).await, 1);
    // Of priorities never seen.
    for (n, priority) in [(3, 5), (4, -5), (5, 1)] {
        client.insert(Task { n }).priority(priority).await.unwrap();
        assert_eq!(next(&mut works).await, n);
    }
    // Of long ago.
    client.insert(Task { n: 6 }).scheduled_at(OffsetDateTime::now_utc() - Duration::from_secs(7_200)).await.unwrap();
    assert_eq!(next(&mut works).await, 6);
}

#[support::test]
async fn a_backlog_behind_jobs_for_others_is_worked_at_once_and_once(database: Database) {
    const JOBS: u32 = 5_000;
    let mut works = past_many(&database).await;
    let long_ago = OffsetDateTime::now_utc() - Duration::from_secs(7_200);
    let jobs = (0..JOBS).map(|n| NewJob::from(Task { n }).priority((n % 2) as i16).scheduled_at(long_ago));
    database.client.insert_many(jobs).await.unwrap();
    let mut seen: Vec<u32> = Vec::new();
    for _ in 0..JOBS {
        seen.push(next(&mut works).await);
    }
    seen.sort_unstable();
    assert!(seen.iter().copied().eq(0..JOBS));
    database.end().await;
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE kind = 'other' AND attempt > 0").await, 0);
}

const RUNNER: &str = "00000000-0000-7000-8000-000000000001";

/// The jobs that a fetch takes from a queue, by their numbers.
async fn taken(database: &Database, connection: &mut PgConnection, slots: i64) -> String {
    let look = format!(
        "EXECUTE prepared_fetch ('{RUNNER}', '{}', '{{task}}', 1, false,
            '{{}}', '{{}}', '{{}}', '{{}}', NULL)",
        wanted(&[("default", slots)])
    );
    sqlx::raw_sql(database.sql(&look)).execute(connection).await.unwrap();
    let jobs = "WITH again AS (UPDATE {schema}.job SET state = 'available', worker = NULL WHERE state = 'running' RETURNING args)
        SELECT coalesce(string_agg(args::text, ' ' ORDER BY args), '') FROM again";
    database.text(jobs).await
}

#[support::test]
async fn a_fetch_takes_the_next_jobs_of_a_queue_and_no_more_than_what_holds_it_back_allows(database: Database) {
    let jobs = "INSERT INTO {schema}.job (id, kind, queue, args, priority)
        SELECT {schema}.new_job_id(), kind, queue, to_jsonb(n), n
        FROM (VALUES (1, 'task', 'default'), (2, 'task', 'default'), (3, 'task', 'default'),
            (4, 'other', 'default'), (5, 'task', 'elsewhere')) AS j (n, kind, queue)";
    database.execute(jobs).await;
    database.enter_runner(RUNNER.parse().unwrap(), "a", "{default}").await;
    let mut connection = database.pool().acquire().await.unwrap();
    database.prepare(&mut connection, "fetch").await;
    assert_eq!(taken(&database, &mut connection, 2).await, "2 3");
    database.execute("INSERT INTO {schema}.queue (name) VALUES ('default')").await;
    for (holds, allows, lets_go) in [
        ("UPDATE {schema}.queue SET paused_at = now()", "", "UPDATE {schema}.queue SET paused_at = NULL"),
        ("UPDATE {schema}.queue SET max_running = 1", "3", "UPDATE {schema}.queue SET max_running = NULL"),
        (
            "UPDATE {schema}.runner SET leased_until = now() - interval '1 second'",
            "",
            "UPDATE {schema}.runner SET leased_until = now() + interval '1 hour'",
        ),
        ("UPDATE {schema}.job SET kind = 'other_' || kind", "", "UPDATE {schema}.job SET kind = substr(kind, 7)"),
    ] {
        database.execute(holds).await;
        assert_eq!(taken(&database, &mut connection, 2).await, allows, "{holds}");
        database.execute(lets_go).await;
        assert_eq!(taken(&database, &mut connection, 9).await, "1 2 3", "{lets_go}");
    }
    connection.close().await.unwrap();
}

#[support::test]
async fn a_fetch_goes_on_behind_the_cursor_in_the_queues_that_it_has_and_from_the_head_of_others(database: Database) {
    let jobs = "INSERT INTO {schema}.job (id, kind, queue, scheduled_at)
        SELECT {schema}.new_job_id(), 'task', queue, timestamptz '2026-01-01' + n * interval '1 hour'
        FROM generate_series(1, 3) AS n, unnest(ARRAY['placed', 'other']) AS queue";
    database.execute(jobs).await;
    database.enter_runner(RUNNER.parse().unwrap(), "a", "{placed,other}").await;
    let mut connection = database.pool().acquire().await.unwrap();
    database.prepare(&mut connection, "fetch").await;
    let second = "SELECT id::text FROM {schema}.job WHERE queue = 'placed' ORDER BY scheduled_at OFFSET 1 LIMIT 1";
    let second = database.text(second).await;
    let onward = format!(
        "EXECUTE prepared_fetch ('{RUNNER}', '{}', '{{task}}', 1, false,
            '{{placed}}', '{{0}}', ARRAY[timestamptz '2026-01-01 02:00'], '{{{second}}}', NULL)",
        wanted(&[("placed", 5), ("other", 2)])
    );
    sqlx::raw_sql(database.sql(&onward)).execute(&mut *connection).await.unwrap();
    let running =
        "SELECT string_agg(queue || ' ' || extract(hour FROM scheduled_at), ', ' ORDER BY queue, scheduled_at)
        FROM {schema}.job WHERE state = 'running'";
    assert_eq!(database.text(running).await, "other 1, other 2, placed 3");
    connection.close().await.unwrap();
}
