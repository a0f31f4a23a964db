//! apalis-postgres at the workloads of `uniqueue-bench`: one line of JSON.
//!
//! Usage: apalis-peer URL WORKLOAD N, with insert_bulk, insert_single, insert_unique, work or latency.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PgTask, PostgresStorage, queries};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, PgConnection};

const QUEUE: &str = "bench";
const TASKS: u64 = 16;
const BULK: u64 = 1_000;
const TICK: Duration = Duration::from_millis(20);

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Debug, Deserialize, Serialize)]
struct NoOp {
    n: u64,
}

fn task(n: u64, is_unique: bool) -> PgTask {
    let args = serde_json::to_vec(&NoOp { n }).expect("a number");
    let task = TaskBuilder::new(args);
    if is_unique { task.idempotency_key(format!("key {n}")).build() } else { task.build() }
}

/// Inserts from as many tasks, each over a connection of its own, so many jobs at a time.
async fn insert(url: &str, n: u64, tasks: u64, batch: u64, is_unique: bool) -> Fallible<Duration> {
    let mut connections = Vec::new();
    for _ in 0..tasks {
        connections.push(PgConnection::connect(url).await?);
    }
    let next = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut inserting = tokio::task::JoinSet::new();
    for mut connection in connections {
        let next = Arc::clone(&next);
        inserting.spawn(async move {
            loop {
                let first = next.fetch_add(batch, Ordering::Relaxed);
                if first >= n {
                    return Ok::<_, apalis_postgres::Error>(());
                }
                let jobs = (first..(first + batch).min(n)).map(|n| task(n, is_unique)).collect();
                queries::push_tasks(&mut connection, QUEUE, jobs).await?;
            }
        });
    }
    while let Some(inserted) = inserting.join_next().await {
        inserted??;
    }
    Ok(began.elapsed())
}

/// Works what waits.
async fn work(pool: &PgPool, url: &str, n: u64) -> Fallible<Duration> {
    insert(url, n, 4, BULK, false).await?;
    sqlx::query("ANALYZE apalis.jobs").execute(pool).await?;
    let config = Config::default().queue(QUEUE).batch_size(1_000);
    let backend = PostgresStorage::<NoOp>::new(pool).with_config(config);
    let done = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&done);
    let began = Instant::now();
    let worker = WorkerBuilder::new("bench")
        .backend(backend.poll_with_interval(Duration::from_millis(1)))
        .concurrency(1_000)
        .build(move |_: NoOp| {
            counted.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok::<_, BoxDynError>(()))
        });
    let worker = tokio::spawn(worker.run());
    while done.load(Ordering::Relaxed) < n {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Begun is not recorded.
    let open = "SELECT EXISTS (SELECT FROM apalis.jobs WHERE status <> 'Done')";
    while sqlx::query_scalar::<_, bool>(open).fetch_one(pool).await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = began.elapsed();
    worker.abort();
    Ok(took)
}

/// One insert at each tick; the times from its answer to the start of its job, in milliseconds.
async fn latency(pool: &PgPool, url: &str, n: u64) -> Fallible<Vec<f64>> {
    let backend = PostgresStorage::<NoOp>::new(pool).with_config(Config::default().queue(QUEUE)).with_pubsub();
    let starts = Arc::new(Mutex::new(Vec::new()));
    let started = Arc::clone(&starts);
    let worker = WorkerBuilder::new("bench").backend(backend).build(move |job: NoOp| {
        started.lock().expect("nothing panics").push((job.n, Instant::now()));
        std::future::ready(Ok::<_, BoxDynError>(()))
    });
    let worker = tokio::spawn(worker.run());
    let mut connection = PgConnection::connect(url).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut answers = Vec::new();
    let mut ticks = tokio::time::interval(TICK);
    for number in 0..n {
        ticks.tick().await;
        queries::push_tasks(&mut connection, QUEUE, vec![task(number, false)]).await?;
        answers.push(Instant::now());
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while starts.lock().expect("nothing panics").len() < answers.len() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    worker.abort();
    let starts = starts.lock().expect("nothing panics");
    if starts.len() < answers.len() {
        return Err(format!("of {} jobs only {} have started", answers.len(), starts.len()).into());
    }
    // The first ten warm up.
    let late = starts.iter().filter(|(n, _)| *n >= 10);
    let mut times: Vec<f64> =
        late.map(|(n, at)| at.saturating_duration_since(answers[*n as usize]).as_secs_f64() * 1_000.0).collect();
    times.sort_by(f64::total_cmp);
    Ok(times)
}

#[tokio::main]
async fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, workload, n] = arguments.as_slice() else { return Err("usage: apalis-peer URL WORKLOAD N".into()) };
    let n: u64 = n.parse()?;
    let pool = PgPoolOptions::new().max_connections(10).connect(url).await?;
    PostgresStorage::setup(&pool).await?;
    sqlx::query("TRUNCATE apalis.jobs CASCADE").execute(&pool).await?;
    let mut line = serde_json::json!({ "peer": "apalis-postgres 1.0.0", "workload": workload, "n": n });
    if workload == "latency" {
        let times = latency(&pool, url, n).await?;
        let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).max(1) - 1).copied();
        line["p50_ms"] = at(50).into();
        line["p99_ms"] = at(99).into();
    } else {
        let took = match workload.as_str() {
            "insert_bulk" => insert(url, n, 4, BULK, false).await?,
            "insert_single" => insert(url, n, TASKS, 1, false).await?,
            "insert_unique" => insert(url, n, TASKS, 1, true).await?,
            "work" => work(&pool, url, n).await?,
            other => return Err(format!("no such workload: {other}").into()),
        };
        line["jobs_per_second"] = (n as f64 / took.as_secs_f64()).round().into();
    }
    println!("{line}");
    Ok(())
}
