//! fang at the workloads of `uniqueue-bench`: one line of JSON.
//!
//! Usage: fang-peer URL WORKLOAD N, with insert_single, insert_unique, work_delete or latency. It inserts one job at a
//! time, and its workers fetch one job at a time. The database must have its tables.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fang::asynk::async_queue::{AsyncQueue, AsyncQueueable};
use fang::asynk::async_worker_pool::AsyncWorkerPool;
use fang::serde::{Deserialize, Serialize};
use fang::{AsyncRunnable, FangError, RetentionMode, SleepParams, async_trait, typetag};
use sqlx::PgPool;

const TASKS: u32 = 16;
const TICK: Duration = Duration::from_millis(20);

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

static DONE: AtomicU64 = AtomicU64::new(0);
static STARTS: Mutex<Vec<(u64, Instant)>> = Mutex::new(Vec::new());

#[derive(Debug, Deserialize, Serialize)]
#[serde(crate = "fang::serde")]
struct NoOp {
    n: u64,
    is_unique: bool,
}

#[typetag::serde]
#[async_trait]
impl AsyncRunnable for NoOp {
    async fn run(&self, _: &dyn AsyncQueueable) -> Result<(), FangError> {
        STARTS.lock().expect("nothing panics").push((self.n, Instant::now()));
        DONE.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn uniq(&self) -> bool {
        self.is_unique
    }
}

/// Inserts from sixteen tasks.
async fn insert(queue: &AsyncQueue, n: u64, is_unique: bool) -> Fallible<Duration> {
    let next = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut inserting = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let (queue, next) = (queue.clone(), Arc::clone(&next));
        inserting.spawn(async move {
            loop {
                let n_of = next.fetch_add(1, Ordering::Relaxed);
                if n_of >= n {
                    return Ok::<_, fang::AsyncQueueError>(());
                }
                queue.insert_task(&NoOp { n: n_of, is_unique }).await?;
            }
        });
    }
    while let Some(inserted) = inserting.join_next().await {
        inserted??;
    }
    Ok(began.elapsed())
}

/// Starts sixteen workers that delete what they have worked, and look each 10 ms where they find nothing.
async fn start(queue: &AsyncQueue) {
    let tick = Duration::from_millis(10);
    let sleep =
        SleepParams { sleep_period: tick, min_sleep_period: tick, max_sleep_period: tick, sleep_step: Duration::ZERO };
    let mut workers = AsyncWorkerPool::<AsyncQueue>::builder()
        .number_of_workers(TASKS)
        .queue(queue.clone())
        .sleep_params(sleep)
        .retention_mode(RetentionMode::RemoveAll)
        .build();
    workers.start().await;
}

/// Works what waits.
async fn work(queue: &AsyncQueue, pool: &PgPool, n: u64) -> Fallible<Duration> {
    insert(queue, n, false).await?;
    sqlx::query("ANALYZE fang_tasks").execute(pool).await?;
    let began = Instant::now();
    start(queue).await;
    // Begun is not recorded.
    while sqlx::query_scalar::<_, bool>("SELECT EXISTS (SELECT FROM fang_tasks)").fetch_one(pool).await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(began.elapsed())
}

/// One insert at each tick; the times from its answer to the start of its job, in milliseconds.
async fn latency(queue: &AsyncQueue, n: u64) -> Fallible<Vec<f64>> {
    start(queue).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut answers = Vec::new();
    let mut ticks = tokio::time::interval(TICK);
    for number in 0..n {
        ticks.tick().await;
        queue.insert_task(&NoOp { n: number, is_unique: false }).await?;
        answers.push(Instant::now());
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while DONE.load(Ordering::Relaxed) < n && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let starts = STARTS.lock().expect("nothing panics");
    if (starts.len() as u64) < n {
        return Err(format!("of {n} jobs only {} have started", starts.len()).into());
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
    let [url, workload, n] = arguments.as_slice() else { return Err("usage: fang-peer URL WORKLOAD N".into()) };
    let n: u64 = n.parse()?;
    let pool = PgPool::connect(url).await?;
    sqlx::query("TRUNCATE fang_tasks").execute(&pool).await?;
    let mut queue = AsyncQueue::builder().uri(url.as_str()).max_pool_size(TASKS).build();
    queue.connect().await?;
    let mut line = serde_json::json!({ "peer": "fang 0.11.0", "workload": workload, "n": n });
    if workload == "latency" {
        let times = latency(&queue, n).await?;
        let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).max(1) - 1).copied();
        line["p50_ms"] = at(50).into();
        line["p99_ms"] = at(99).into();
    } else {
        let took = match workload.as_str() {
            "insert_single" => insert(&queue, n, false).await?,
            "insert_unique" => insert(&queue, n, true).await?,
            "work_delete" => work(&queue, &pool, n).await?,
            other => return Err(format!("no such workload: {other}").into()),
        };
        line["jobs_per_second"] = (n as f64 / took.as_secs_f64()).round().into();
    }
    println!("{line}");
    Ok(())
}
