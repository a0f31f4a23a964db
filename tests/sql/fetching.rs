//! Fetches: what guards a queue, and that no guard is missed.

use support::prelude::*;
use support::wanted;

const RUNNER: &str = "00000000-0000-7000-8000-000000000001";

async fn with_runner(connections: u32) -> Database {
    let database = Database::with_connections(connections).await;
    database.enter_runner(RUNNER.parse().unwrap(), "r", "{default}").await;
    database.execute("INSERT INTO {schema}.queue (name) VALUES ('default')").await;
    database
}

/// Ten jobs of each queue.
fn ten_of(names: &[&str]) -> String {
    wanted(&names.iter().map(|name| (*name, 10)).collect::<Vec<_>>())
}

fn fetch(names: &[&str]) -> String {
    format!(
        "SELECT id::text FROM {{schema}}._fetch_jobs('{RUNNER}', '{}', '{{a}}', '{{}}', 0, false, '{{}}', '{{}}', '{{}}', '{{}}', NULL, NULL)
        WHERE id IS NOT NULL",
        ten_of(names)
    )
}

const JOBS: &str = "INSERT INTO {schema}.job (id, kind) SELECT {schema}.new_job_id(), 'a' FROM generate_series(1, 5)";

/// Each guard, how many of five other jobs a fetch takes all the same, and what takes the guard away.
const GUARDS: [(&str, usize, &str); 6] = [
    ("UPDATE {schema}.queue SET paused_at = now()", 0, "UPDATE {schema}.queue SET paused_at = NULL"),
    (
        "UPDATE {schema}.queue SET held_until = now() + interval '1 hour'",
        0,
        "UPDATE {schema}.queue SET held_until = NULL",
    ),
    ("UPDATE {schema}.queue SET max_running = 2", 2, "UPDATE {schema}.queue SET max_running = NULL"),
    (
        "UPDATE {schema}.queue SET rate_count = 3, rate_period = '1 day', rate_burst = 3",
        3,
        "UPDATE {schema}.queue SET rate_count = NULL, rate_period = NULL, rate_burst = NULL, rate_full_at = NULL",
    ),
    (
        "INSERT INTO {schema}.job (id, kind, group_key) VALUES ({schema}.new_job_id(), 'other', 'g')",
        5,
        "DELETE FROM {schema}.job WHERE kind = 'other'",
    ),
    (
        "INSERT INTO {schema}.job (id, kind, crashes) VALUES ({schema}.new_job_id(), 'a', 1)",
        5,
        "DELETE FROM {schema}.job WHERE crashes > 0",
    ),
];

#[support::test(self::with_runner(1))]
async fn plain_jobs_come_only_from_a_queue_that_nothing_guards(database: Database) {
    let plain = |queues: &str| {
        format!(
            "SELECT is_guarded, coalesce(cardinality(ids), 0)
            FROM {{schema}}._plain_jobs('{RUNNER}', '{queues}', '{{a}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')"
        )
    };
    let plain = async |queues: &str| -> (bool, i32) {
        sqlx::query_as(database.sql(&plain(queues))).fetch_one(database.pool()).await.unwrap()
    };
    for (guard, taken, end) in GUARDS {
        database.execute(JOBS).await;
        assert_eq!(plain(&ten_of(&["default"])).await, (false, 5));
        database.execute(guard).await;
        assert_eq!(plain(&ten_of(&["default"])).await, (true, 0), "{guard}");
        // The settings are asked again where the queue's row is not locked.
        let is_set = guard.starts_with("UPDATE");
        let past = ten_of(&["default"]).replace("\"visits\"", "\"is_past_guard\":true,\"visits\"");
        assert_eq!(plain(&past).await, if is_set { (true, 0) } else { (false, 5) }, "{guard}");
        let ids = database.texts(&fetch(&["default"])).await;
        assert_eq!(ids.len(), taken, "{guard}");
        database.execute(end).await;
        database.execute("DELETE FROM {schema}.job").await;
    }
}

#[support::test(self::with_runner(1))]
async fn a_guarded_queue_keeps_no_other_queue_of_a_fetch_from_its_jobs(database: Database) {
    for (guard, taken, end) in GUARDS {
        database.execute(JOBS).await;
        let others = "INSERT INTO {schema}.job (id, kind, queue)
            SELECT {schema}.new_job_id(), 'a', q.name FROM (VALUES ('after'), ('zebra')) AS q (name)";
        database.execute(others).await;
        database.execute(guard).await;
        let names = ["zebra", "default", "after"];
        let ids = database.texts(&fetch(&names)).await;
        assert_eq!(ids.len(), 2 + taken, "{guard}");
        database.execute(end).await;
        database.execute("DELETE FROM {schema}.job").await;
    }
}

#[support::test(self::with_runner(1))]
async fn a_runner_whose_lease_is_over_takes_nothing(database: Database) {
    database.execute(JOBS).await;
    database.execute("INSERT INTO {schema}.job (id, kind, crashes) VALUES ({schema}.new_job_id(), 'a', 2)").await;
    database.execute("UPDATE {schema}.runner SET leased_until = now()").await;
    for is_alone in ["false", "true"] {
        let fetch = fetch(&["default"]).replace("0, false", &format!("1, {is_alone}"));
        let ids = database.texts(&fetch).await;
        assert_eq!(ids.len(), 0, "{is_alone}");
    }
    database.execute("UPDATE {schema}.runner SET leased_until = now() + interval '1 hour'").await;
    let alone = fetch(&["default"]).replace("0, false", "1, true");
    let ids = database.texts(&alone).await;
    assert_eq!(ids.len(), 1, "the suspect alone");
}

/// Ends what the fetches had, and the limit with it.
async fn clear(database: &Database, connection: &mut PgConnection) {
    let clear = "BEGIN; DELETE FROM {schema}.job; UPDATE {schema}.queue SET max_running = NULL; COMMIT";
    sqlx::raw_sql(database.sql(clear)).execute(connection).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_committed_with_its_jobs_holds_for_fetches_at_any_moment() {
    const FETCHERS: usize = 3;
    let database = with_runner(FETCHERS as u32 + 1).await;
    let (fetches, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut tasks = Vec::new();
    for _ in 0..FETCHERS {
        let (pool, sql) = (database.pool().clone(), database.sql(&fetch(&["default"])));
        let (fetches, is_over) = (Arc::clone(&fetches), Arc::clone(&is_over));
        tasks.push(tokio::spawn(async move {
            while !is_over.load(Ordering::Acquire) {
                let _: Vec<String> = sqlx::query_scalar(sql.clone()).fetch_all(&pool).await.unwrap();
                fetches.fetch_add(1, Ordering::AcqRel);
            }
        }));
    }
    let mut connection = database.pool().acquire().await.unwrap();
    // A suspect makes every second round one of a guarded queue.
    for round in 0..60 {
        let limited = format!(
            "BEGIN; UPDATE {{schema}}.queue SET max_running = 1;
            INSERT INTO {{schema}}.job (id, kind, crashes)
            SELECT {{schema}}.new_job_id(), 'a', {} * (n = 1)::integer FROM generate_series(1, 20) AS n; COMMIT",
            round % 2
        );
        sqlx::raw_sql(database.sql(&limited)).execute(&mut *connection).await.unwrap();
        let enough = fetches.load(Ordering::Acquire) + 3 * FETCHERS;
        eventually!(fetches.load(Ordering::Acquire) >= enough, "nothing fetches");
        let running = "SELECT count(*) FROM {schema}.job WHERE state = 'running'";
        let running: i64 = sqlx::query_scalar(database.sql(running)).fetch_one(&mut *connection).await.unwrap();
        assert_eq!(running, 1, "in round {round}");
        clear(&database, &mut connection).await;
    }
    is_over.store(true, Ordering::Release);
    for task in tasks {
        task.await.unwrap();
    }
}

/// A fetch lasts as long as the server sends rows, and the heartbeat of its runner changes the runner's row meanwhile.
#[support::test(self::with_runner(2))]
async fn no_fetch_of_a_runner_locks_the_runner_s_row(database: Database) {
    database.execute(JOBS).await;
    database.execute("UPDATE {schema}.job SET crashes = 1").await;
    let large = database.text("SELECT max(id::text) FROM {schema}.job").await;
    for memory in [
        "{}".to_owned(),
        r#"{"is_careful": true, "taken": 2}"#.to_owned(),
        format!(r#"{{"is_careful": true, "aside": {{"{large}": {{"queue": "default", "bytes": 1000000}}}}}}"#),
    ] {
        let mut fetching = database.pool().begin().await.unwrap();
        let fetch = format!(
            "SELECT facts #>> '{{plan,memory}}' FROM {{schema}}._fetch_jobs(
                '{RUNNER}', '{}', '{{a}}', '{{}}', NULL, false, '{{}}', '{{}}', '{{}}', '{{}}', NULL, '{memory}'
            ) WHERE id IS NULL",
            wanted(&[("default", 1)])
        );
        let changed: String = sqlx::query_scalar(database.sql(&fetch)).fetch_one(&mut *fetching).await.unwrap();
        assert_ne!(changed, memory, "there is something to remember");
        let started = "SELECT count(*) FROM {schema}.job WHERE state = 'running'";
        let started: i64 = sqlx::query_scalar(database.sql(started)).fetch_one(&mut *fetching).await.unwrap();
        assert_eq!(started, 1, "{changed}");
        database.execute("SELECT FROM {schema}.runner FOR UPDATE NOWAIT").await;
        fetching.rollback().await.unwrap();
    }
}

/// The search after a fetch that failed looks for the job that was fetched alone, perhaps after others have become due.
#[support::test(self::with_runner(1))]
async fn of_large_jobs_the_one_that_is_due_for_longest_is_fetched_alone(database: Database) {
    database.execute(JOBS).await;
    let ids = database.text("SELECT string_agg(id::text, ' ' ORDER BY id) FROM {schema}.job").await;
    let ids: Vec<_> = ids.split(' ').collect();
    database.execute(&format!("DELETE FROM {{schema}}.job WHERE id IN ('{}', '{}')", ids[1], ids[2])).await;
    let aside = |id: &str, seconds: u32| {
        format!(r#""{id}": {{"queue": "default", "bytes": 1, "until": "' || now() - interval '{seconds} s' || '"}}"#)
    };
    let fetch = format!(
        "SELECT id::text FROM {{schema}}._fetch_jobs(
            '{RUNNER}', '{}', '{{a}}', '{{}}', NULL, false, '{{}}', '{{}}', '{{}}', '{{}}', NULL,
            ('{{\"is_careful\": true, \"aside\": {{{}, {}, {}}}}}')::jsonb
        ) WHERE id IS NOT NULL",
        wanted(&[("default", 5)]),
        aside(ids[0], 1),
        aside(ids[3], 3),
        aside(ids[4], 2)
    );
    assert_eq!(database.text(&fetch).await, ids[3]);
}
