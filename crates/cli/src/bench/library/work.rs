//! Working, as an application does it with a runner.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection, Row};
use uniqueue::{Client, Retention, Runner, RunnerHandle, RunningJob};

use super::counter::{Counter, Jobs};
use super::fill::{Fill, queue_names};
use super::ground::Ground;
use super::insert::wrong;
use super::job::NoOp;
use super::meter::{Measure, Meter};
use crate::failure::Failure;

/// What is worked, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Works {
    /// The jobs to work, and those behind them, where the table is to be filled.
    pub(super) fill: Option<Fill>,
    /// Enough after so many.
    pub(super) n: u64,
    pub(super) queues: u32,
    pub(super) connections: u32,
    /// Jobs that the runner works at once.
    pub(super) concurrency: u32,
    /// What becomes of a job that is completed.
    pub(super) keep: Keep,
    /// Whether somebody keeps a snapshot open that is older than the first fetch.
    pub(super) is_snapshot_held: bool,
}

/// What becomes of completed jobs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Keep {
    Rows,
    Nothing,
}

impl Works {
    /// Fills the table and lets the planner know.
    pub(super) async fn prepare(&self, ground: &mut Ground) -> Result<(), Failure> {
        if let Some(fill) = self.fill {
            fill.insert(ground).await?;
            ground.execute("ANALYZE /* schema */job").await?;
        }
        Ok(())
    }

    /// A transaction that looks at what is there, and stays open until this is dropped.
    pub(super) async fn snapshot(&self, ground: &Ground) -> Result<Option<PgConnection>, Failure> {
        if !self.is_snapshot_held {
            return Ok(None);
        }
        let mut connection = PgConnection::connect(&ground.url).await?;
        sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ").execute(&mut connection).await?;
        sqlx::raw_sql(ground.sql("SELECT FROM /* schema */job LIMIT 1")).execute(&mut connection).await?;
        Ok(Some(connection))
    }
}

/// A runner that counts what it works.
pub(super) async fn start(client: Client, works: &Works, counter: &Arc<Counter>) -> Result<RunnerHandle, Failure> {
    let counter = Arc::clone(counter);
    let worker = move |job: RunningJob<NoOp>| {
        counter.count(job.args.n);
        std::future::ready(())
    };
    let mut runner = Runner::new(client).name("uniqueue bench").worker(worker);
    for queue in queue_names(works.queues) {
        runner = runner.queue(queue, (works.concurrency / works.queues).max(1) as usize);
    }
    if works.keep == Keep::Nothing {
        runner = runner.retention(Retention::default().completed(Duration::ZERO));
    }
    Ok(runner.start().await?)
}

/// Works with one runner: from before its start until it has recorded the last result.
pub(super) async fn ours(ground: &mut Ground, works: Works) -> Result<Measure, Failure> {
    works.prepare(ground).await?;
    let waiting = waiting(ground).await?;
    let client = ground.client(works.connections).await?;
    let counter = Arc::new(Counter::new(works.n));
    let snapshot = works.snapshot(ground).await?;
    let meter = Meter::start(ground).await?;
    let begun_at = Instant::now();
    let runner = start(client.clone(), &works, &counter).await?;
    let enough = counter.enough(&ground.interrupt).await;
    runner.stop().await?;
    enough?;
    let done = counter.jobs();
    let mut measure = meter.stop(ground, done.count).await?;
    measure.tenths = counter.tenths(begun_at);
    drop(snapshot);
    client.pool().close().await;
    check(ground, waiting, done, works.keep).await?;
    Ok(measure)
}

/// The jobs that a runner would find.
pub(super) async fn waiting(ground: &mut Ground) -> Result<Jobs, Failure> {
    let sql = ground
        .sql("SELECT count(*), coalesce(sum((args ->> 'n')::bigint), 0)::bigint FROM /* schema */job WHERE ready");
    let row = sqlx::query(sql).fetch_one(&mut ground.connection).await?;
    let number = |at: usize| row.try_get(at).map(i64::unsigned_abs);
    Ok(Jobs { count: number(0)?, sum: number(1)? })
}

/// Checks that each job that ran did so once and is completed, and no other.
pub(super) async fn check(ground: &mut Ground, before: Jobs, done: Jobs, keep: Keep) -> Result<(), Failure> {
    let left = waiting(ground).await?;
    let running = ground.count("SELECT count(*) FROM /* schema */job WHERE state = 'running'").await?;
    let (there, ran) = (before.count, done.count);
    if there != left.count + ran || running != 0 {
        return Err(wrong(format!("of {there} jobs {ran} ran, {} wait and {running} are not finished", left.count)));
    }
    if before.sum != left.sum + done.sum {
        return Err(wrong(format!("of {there} jobs as many ran or wait, but not the same ones: some ran twice")));
    }
    // Those that fill the table as completed never had an attempt.
    let completed = "SELECT count(*) FROM /* schema */job WHERE state = 'completed' AND attempt = 1";
    let (completed, wanted) = (ground.count(completed).await?, if keep == Keep::Rows { ran } else { 0 });
    if completed != wanted {
        return Err(wrong(format!("of {ran} jobs that ran, {completed} rows are completed, where {wanted} should be")));
    }
    Ok(())
}
