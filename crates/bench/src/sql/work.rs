//! Working with SQL: each connection fetches jobs and finishes them, in a loop.

use std::sync::Arc;
use std::time::Instant;

use sqlx::types::Json;
use sqlx::{PgConnection, Row, SqlStr};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::counter::Counter;
use crate::failure::Failure;
use crate::failures::interrupted;
use crate::fill::queue_names;
use crate::job::NoOp;
use crate::meter::{Measure, Meter};
use crate::statement::Statement;
use crate::tasks::join;
use crate::test_database::{RUNNER_SETTINGS, TestDatabase};
use crate::work::{Keep, Work, check, waiting};

/// Works with SQL.
pub(crate) async fn run(database: &mut TestDatabase, work: Work) -> Result<Measure, Failure> {
    work.prepare(database).await?;
    let waiting = waiting(database).await?;
    let worker = Worker::new(database, &work);
    let connections = worker_connections(database, work.loops.connections).await?;
    let snapshot = work.snapshot(database).await?;
    let counter = Arc::new(Counter::new(work.n));
    let mut tasks = JoinSet::new();
    let meter = Meter::start(database).await?;
    let begun_at = Instant::now();
    for mut connection in connections {
        let (worker, interrupt, counter) = (worker.clone(), database.interrupt.clone(), Arc::clone(&counter));
        tasks.spawn(async move {
            while counter.done() < work.n {
                if interrupt.is_cancelled() {
                    return Err(interrupted());
                }
                let count = |job: NoOp| counter.count(std::hint::black_box(job).n);
                if worker.work(&mut connection, count).await? == 0 {
                    break;
                }
            }
            Ok(())
        });
    }
    join(tasks).await?;
    let done = counter.jobs();
    let mut measure = meter.stop(database, done.count).await?;
    measure.tenths = counter.tenths(begun_at);
    drop(snapshot);
    check(database, waiting, done, work.keep).await?;
    Ok(measure)
}

/// Connections with the settings of a runner's own.
pub(crate) async fn worker_connections(database: &TestDatabase, count: u32) -> Result<Vec<PgConnection>, Failure> {
    let mut connections = database.connections(count).await?;
    for connection in &mut connections {
        sqlx::raw_sql(RUNNER_SETTINGS).execute(connection).await?;
    }
    Ok(connections)
}

/// The two statements of a worker, and what they are sent with.
#[derive(Clone)]
pub(crate) struct Worker {
    fetch: SqlStr,
    finish: SqlStr,
    queues: Arc<[String]>,
    /// Jobs that one fetch takes of each queue.
    batch: i64,
    /// The id in the rows that it works.
    id: Uuid,
}

impl Worker {
    pub(crate) fn new(database: &TestDatabase, work: &Work) -> Self {
        let fetch = if work.queues == 1 { Statement::Fetch } else { Statement::FetchQueues };
        let finish = match work.keep {
            Keep::Rows => Statement::Complete,
            Keep::Nothing => Statement::Delete,
        };
        Self {
            fetch: database.statement(fetch.text()),
            finish: database.statement(finish.text()),
            queues: queue_names(work.queues).into(),
            batch: i64::from((work.loops.batch / work.queues).max(1)),
            id: Uuid::now_v7(),
        }
    }

    /// Fetches jobs, hands each to `work`, finishes them, and answers with their number.
    pub(crate) async fn work(&self, connection: &mut PgConnection, mut work: impl FnMut(NoOp)) -> Result<u64, Failure> {
        let query = sqlx::query(self.fetch.clone());
        let query = match &*self.queues {
            [queue] => query.bind(queue),
            queues => query.bind(queues),
        };
        let rows = query.bind(self.batch).bind(self.id).fetch_all(&mut *connection).await?;
        let mut ids: Vec<Uuid> = Vec::with_capacity(rows.len());
        for row in rows {
            let Json(args) = row.try_get(1)?;
            work(args);
            ids.push(row.try_get(0)?);
        }
        let count = ids.len() as u64;
        if count > 0 {
            sqlx::query(self.finish.clone()).bind(ids).execute(connection).await?;
        }
        Ok(count)
    }
}
