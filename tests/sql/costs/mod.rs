//! The costs of jobs, counted and not timed: statements, row versions, WAL, pages. A change that makes jobs more
//! expensive fails here. The bounds of WAL are a tenth above what was measured.
//!
//! On a cluster of their own, one test at a time: WAL is counted for the whole cluster.

mod inserts;
mod pages;
mod works;

use support::prelude::*;
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use uniqueue::embedded;

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

    /// From a number on, each with a key of its own.
    fn unique(first: i64, count: i64) -> impl Iterator<Item = NewJob> {
        (first..first + count).map(|n| NewJob::from(Task { n }).unique(UniquePolicy::new().by_args()))
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
