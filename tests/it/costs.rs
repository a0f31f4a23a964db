//! What jobs cost, counted and not timed: statements, row versions, WAL, pages. So a busy machine cannot fail these,
//! and a change that makes every job dearer cannot pass.
//!
//! On a cluster of their own, one test at a time: WAL is counted for the whole cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPoolOptions;
use sqlx::types::Json;
use sqlx::{Connection, PgConnection, Row};
use tokio::sync::{Mutex, MutexGuard, Notify, OnceCell};
use uniqueue::{Client, Job, Retention, Runner, RunningJob, UniquePolicy, embedded};
use uuid::Uuid;

use crate::support::{Database, WAIT, counting_statements};

static CLUSTER: OnceCell<embedded::Postgres> = OnceCell::const_new();
static TURN: Mutex<()> = Mutex::const_new(());

/// Jobs in a batch, and slots of the runner.
const BATCH: i64 = 1_000;

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "task")]
struct Task {
    n: i64,
}

/// An empty queue in a cluster where nothing else happens.
struct Quiet {
    client: Client,
    _turn: MutexGuard<'static, ()>,
}

/// Rows written since the table is there.
#[derive(Clone, Copy, Debug)]
struct Reading {
    inserted: i64,
    updated: i64,
    deleted: i64,
}

impl Quiet {
    async fn new() -> Self {
        let turn = TURN.lock().await;
        let start =
            || embedded::Postgres::builder().setting("autovacuum", "off").setting("shared_buffers", "256MB").start();
        let cluster = CLUSTER.get_or_init(async || start().await.expect("a cluster")).await;
        execute("DROP SCHEMA IF EXISTS uniqueue CASCADE").await;
        let pool = PgPoolOptions::new().max_connections(2).acquire_timeout(WAIT).connect(cluster.url()).await.unwrap();
        let client = Client::new(pool);
        client.migrate().await.unwrap();
        Self { client, _turn: turn }
    }

    fn jobs(count: i64) -> impl Iterator<Item = Task> {
        (0..count).map(|n| Task { n })
    }

    async fn insert_unique(&self, count: i64) -> usize {
        let job = |task| uniqueue::NewJob::from(task).unique(UniquePolicy::new().by_args());
        let answers = self.client.insert_many(Self::jobs(count).map(job)).await.unwrap();
        answers.iter().filter(|answer| answer.duplicate).count()
    }

    /// Works jobs, at least so many, and answers with how many it was and with the statements it took.
    async fn work(&self, count: i64, retention: Retention) -> (i64, u64) {
        let pool = PgPoolOptions::new().max_connections(2).acquire_timeout(WAIT).connect(url()).await.unwrap();
        let (worked, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let counting = (Arc::clone(&worked), Arc::clone(&enough));
        let work = move |_: RunningJob<Task>| {
            if counting.0.fetch_add(1, Ordering::AcqRel) + 1 == count as usize {
                counting.1.notify_one();
            }
            async {}
        };
        let (_, statements) = counting_statements(async {
            let runner = Runner::new(Client::new(pool.clone())).queue("default", BATCH as usize).worker(work);
            let runner = runner.retention(retention).start().await.unwrap();
            tokio::time::timeout(WAIT, enough.notified()).await.expect("the jobs to run");
            runner.stop().await.unwrap();
        })
        .await;
        // A connection tells what it did when it ends.
        pool.close().await;
        (worked.load(Ordering::Acquire) as i64, statements)
    }

    /// Reads the counters as soon as they show so many writes.
    async fn reading(&self, writes: i64) -> Reading {
        let mut connection = PgConnection::connect(url()).await.unwrap();
        let began = Instant::now();
        loop {
            let row =
                sqlx::query("SELECT n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_user_tables WHERE relname = 'job'");
            let row = row.fetch_one(&mut connection).await.unwrap();
            let at = |place: usize| row.get::<i64, _>(place);
            let reading = Reading { inserted: at(0), updated: at(1), deleted: at(2) };
            if reading.inserted + reading.updated + reading.deleted >= writes {
                connection.close().await.unwrap();
                return reading;
            }
            assert!(began.elapsed() < WAIT, "{writes} writes wanted: {reading:?}");
        }
    }
}

fn url() -> &'static str {
    CLUSTER.get().unwrap().url()
}

async fn execute(sql: &'static str) {
    let mut connection = PgConnection::connect(url()).await.unwrap();
    sqlx::raw_sql(sql).execute(&mut connection).await.expect(sql);
    connection.close().await.unwrap();
}

async fn wal() -> i64 {
    let mut connection = PgConnection::connect(url()).await.unwrap();
    let wal = sqlx::query_scalar("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint");
    let wal = wal.fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    wal
}

/// WAL bytes a job, and statements.
async fn cost_of<T>(jobs: i64, future: impl Future<Output = T>) -> (T, i64, u64) {
    let before = wal().await;
    let (answer, statements) = counting_statements(future).await;
    (answer, (wal().await - before) / jobs, statements)
}

#[tokio::test]
async fn batch_of_plain_jobs_is_one_statement_and_one_row_each() {
    let quiet = Quiet::new().await;
    let inserting = quiet.client.insert_many(Quiet::jobs(BATCH)).into_future();
    let (answers, bytes, statements) = cost_of(BATCH, inserting).await;
    assert_eq!((answers.unwrap().len() as i64, statements), (BATCH, 1));
    assert!(bytes < 450, "{bytes} bytes of WAL a job");
    quiet.client.pool().close().await;
    let reading = quiet.reading(BATCH).await;
    assert_eq!((reading.inserted, reading.updated, reading.deleted), (BATCH, 0, 0));
}

#[tokio::test]
async fn batch_of_unique_jobs_is_one_statement_and_its_duplicates_write_nothing() {
    let quiet = Quiet::new().await;
    let (duplicates, bytes, statements) = cost_of(BATCH, quiet.insert_unique(BATCH)).await;
    assert_eq!((duplicates, statements), (0, 1));
    assert!(bytes < 800, "{bytes} bytes of WAL a job");
    let (duplicates, bytes, statements) = cost_of(BATCH, quiet.insert_unique(BATCH)).await;
    assert_eq!((duplicates as i64, statements), (BATCH, 1));
    assert!(bytes < 20, "{bytes} bytes of WAL a duplicate");
    quiet.client.pool().close().await;
    let reading = quiet.reading(BATCH).await;
    assert_eq!((reading.inserted, reading.updated, reading.deleted), (BATCH, 0, 0));
}

#[tokio::test]
async fn job_is_written_twice_after_its_insert_and_travels_in_batches() {
    const JOBS: i64 = 5 * BATCH;
    let quiet = Quiet::new().await;
    quiet.client.insert_many(Quiet::jobs(JOBS)).await.unwrap();
    quiet.client.pool().close().await;
    let ((worked, statements), bytes, _) = cost_of(JOBS, quiet.work(JOBS, Retention::default())).await;
    let reading = quiet.reading(3 * JOBS).await;
    assert_eq!((worked, reading.inserted, reading.updated, reading.deleted), (JOBS, JOBS, 2 * JOBS, 0));
    assert!(bytes < 1_200, "{bytes} bytes of WAL a job");
    assert!(statements < JOBS as u64 / 10, "{statements} statements for {JOBS} jobs");
}

#[tokio::test]
async fn job_that_is_not_kept_is_written_once_and_deleted() {
    const JOBS: i64 = 5 * BATCH;
    let quiet = Quiet::new().await;
    quiet.client.insert_many(Quiet::jobs(JOBS)).await.unwrap();
    quiet.client.pool().close().await;
    let retention = Retention::default().completed(Duration::ZERO);
    let ((worked, statements), bytes, _) = cost_of(JOBS, quiet.work(JOBS, retention)).await;
    let reading = quiet.reading(3 * JOBS).await;
    assert_eq!((worked, reading.inserted, reading.updated, reading.deleted), (JOBS, JOBS, JOBS, JOBS));
    assert!(bytes < 800, "{bytes} bytes of WAL a job");
    assert!(statements < JOBS as u64 / 10, "{statements} statements for {JOBS} jobs");
}

/// Pages that a statement looks at for each of a batch of jobs.
async fn pages(database: &Database, connection: &mut PgConnection, name: &str, arguments: &str) -> f64 {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE prepared_{name} ({arguments})");
    let plan: Json<Value> =
        sqlx::raw_sql(database.sql(&explain)).fetch_one(connection).await.expect(name).get::<Json<Value>, _>(0);
    let read = |kind: &str| plan[0]["Plan"][kind].as_f64().unwrap();
    (read("Shared Hit Blocks") + read("Shared Read Blocks")) / BATCH as f64
}

/// A connection that knows how to fetch and to complete, and a live runner to do it for.
async fn runner(database: &Database) -> (PoolConnection<sqlx::Postgres>, Uuid) {
    let mut connection = database.pool().acquire().await.unwrap();
    for name in ["fetch", "fetch_onward", "complete"] {
        database.prepare(&mut connection, name).await;
    }
    let runner = Uuid::now_v7();
    let register = format!(
        "INSERT INTO {{schema}}.runner (id, name, queues, leased_until)
        VALUES ('{runner}', 'a', '{{{{default}}}}', now() + interval '1 hour')"
    );
    database.execute(&register).await;
    (connection, runner)
}

/// What a fetch of a batch is asked with: from the head of the queue, or from behind a place in it.
fn fetch_arguments(runner: Uuid, place: Option<(&str, &str)>) -> String {
    let head = format!("'{{default}}', '{{{BATCH}}}', '{{task}}', '{runner}'");
    match place {
        None => head,
        Some((scheduled_at, id)) => {
            format!("{head}, '{{default}}', '{{0}}', ARRAY['{scheduled_at}'::timestamptz], '{{{id}}}'")
        }
    }
}

/// Pages a job of a fetch and of its end.
async fn pages_of_a_batch(database: &Database) -> [f64; 2] {
    let (mut connection, runner) = runner(database).await;
    let fetch = pages(database, &mut connection, "fetch", &fetch_arguments(runner, None)).await;
    let ids = format!("SELECT array_agg(id ORDER BY id)::text FROM {{schema}}.job WHERE worker = '{runner}'");
    let ids = database.text(&ids).await;
    let arguments = format!("'{runner}', '{ids}', 1, '{{}}', NULL");
    let complete = pages(database, &mut connection, "complete", &arguments).await;
    let completed = format!("SELECT count(*) FROM {{schema}}.job WHERE worker = '{runner}' AND state = 'completed'");
    assert_eq!(database.number(&completed).await, BATCH);
    connection.detach().close().await.unwrap();
    [fetch, complete]
}

/// Jobs whose ids follow time, as those of clients do.
fn fill(first: i64, count: i64, state: &str) -> String {
    format!(
        "INSERT INTO {{schema}}.job (id, kind, state, finalized_at)
        SELECT ('018f0000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'task', '{state}',
            CASE WHEN '{state}' = 'completed' THEN now() END
        FROM generate_series({first}, {first} + {count} - 1) AS g (n)"
    )
}

#[tokio::test]
async fn pages_looked_at_do_not_grow_with_the_table() {
    let database = Database::with_connections(4).await;
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    database.execute(&fill(0, 2 * BATCH, "available")).await;
    database.execute("ANALYZE {schema}.job").await;
    let small = pages_of_a_batch(&database).await;
    database.execute(&fill(1_000_000, 60_000, "completed")).await;
    database.execute(&fill(2_000_000, 60_000, "available")).await;
    database.execute("ANALYZE {schema}.job").await;
    let large = pages_of_a_batch(&database).await;
    // Some more: the indexes are deeper by a level.
    for (name, (small, large)) in ["fetch", "complete"].iter().zip(small.into_iter().zip(large)) {
        let story = format!("{name}: {small} pages a job in a small table, {large} in a large one");
        assert!(large <= small + 8.0 && large < 24.0, "{story}");
    }
}

#[tokio::test]
async fn rows_that_an_old_snapshot_keeps_are_not_walked_from_a_place_behind_them() {
    let database = Database::with_connections(4).await;
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    // Scattered over the table, since a page that is looked at twice in a row counts once.
    database.execute(&format!("{} ORDER BY md5(n::text)", fill(0, 20 * BATCH, "available"))).await;
    database.execute("ANALYZE {schema}.job").await;
    let mut snapshot = database.pool().acquire().await.unwrap();
    sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ").execute(&mut *snapshot).await.unwrap();
    sqlx::raw_sql(database.sql("SELECT FROM {schema}.job LIMIT 1")).execute(&mut *snapshot).await.unwrap();
    // All but the last batches are gone, and their rows stay for the snapshot's sake.
    let last = database.text("SELECT id::text FROM {schema}.job ORDER BY id OFFSET 17999 LIMIT 1").await;
    let time = database.text("SELECT max(scheduled_at)::text FROM {schema}.job").await;
    database.execute(&format!("DELETE FROM {{schema}}.job WHERE id <= '{last}'")).await;
    let (mut connection, runner) = runner(&database).await;
    let head = pages(&database, &mut connection, "fetch", &fetch_arguments(runner, None)).await;
    let behind = fetch_arguments(runner, Some((&time, &last)));
    let behind = pages(&database, &mut connection, "fetch_onward", &behind).await;
    let fetched = format!("SELECT count(*) FROM {{schema}}.job WHERE worker = '{runner}'");
    assert_eq!(database.number(&fetched).await, 2 * BATCH);
    assert!(behind < 24.0 && head > behind + 10.0, "{head} pages a job from the head, {behind} from behind");
    connection.detach().close().await.unwrap();
    snapshot.detach().close().await.unwrap();
}
