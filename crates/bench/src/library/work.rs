//! Working, as an application does it with runners.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use uniqueue::{Client, Retention, Runner, RunnerHandle, RunningJob, WorkerOptions};

use crate::counter::Counter;
use crate::failure::Failure;
use crate::fill::queue_names;
use crate::job::NoOp;
use crate::meter::{Measure, Meter};
use crate::tasks::join;
use crate::test_database::TestDatabase;
use crate::work::{Keep, Work, check, waiting};

/// Works from before the runners start until they have recorded the last result.
pub(crate) async fn run(database: &mut TestDatabase, work: Work) -> Result<Measure, Failure> {
    work.prepare(database).await?;
    let waiting = waiting(database).await?;
    let counter = Arc::new(Counter::new(work.n));
    let mut clients = Vec::new();
    for _ in 0..work.runners.count {
        clients.push(database.client(work.runners.connections).await?);
    }
    let snapshot = work.snapshot(database).await?;
    let meter = Meter::start(database).await?;
    let begun_at = Instant::now();
    let mut runners = Vec::new();
    for client in &clients {
        runners.push(start(client.clone(), &work, &counter).await?);
    }
    let enough = counter.enough(&database.interrupt).await;
    let mut stopping = JoinSet::new();
    for runner in runners {
        stopping.spawn(async move { Ok(runner.stop().await?) });
    }
    join(stopping).await?;
    enough?;
    let done = counter.jobs();
    let mut measure = meter.stop(database, done.count).await?;
    measure.tenths = counter.tenths(begun_at);
    drop(snapshot);
    for client in clients {
        client.pool().close().await;
    }
    check(database, waiting, done, work.keep).await?;
    Ok(measure)
}

/// Starts a runner that counts the jobs that it works.
pub(crate) async fn start(client: Client, work: &Work, counter: &Arc<Counter>) -> Result<RunnerHandle, Failure> {
    let counter = Arc::clone(counter);
    let worker = move |job: RunningJob<NoOp>| {
        counter.count(job.args.n);
        std::future::ready(())
    };
    let names = queue_names(work.queues);
    let options = WorkerOptions::new().queue(&names[0]);
    let mut runner = Runner::new(client).name("uniqueue bench").worker_with(worker, options);
    for queue in names {
        runner = runner.queue(queue, (work.runners.slots / work.queues).max(1) as usize);
    }
    if work.keep == Keep::Nothing {
        runner = runner.retention(Retention::default().completed(Duration::ZERO));
    }
    Ok(runner.start().await?)
}
