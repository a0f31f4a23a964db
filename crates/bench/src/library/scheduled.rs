//! Scheduled jobs with a runner, which promotes them when they are due.

use std::time::Instant;

use tokio::sync::mpsc;
use uniqueue::{Runner, RunningJob};

use crate::delays::all_starts;
use crate::failure::Failure;
use crate::job::{Kind, NoOp};
use crate::meter::{Measure, Meter};
use crate::scheduled::{Clock, Due, Schedule, check};
use crate::test_database::TestDatabase;

/// Inserts jobs ahead of their time, and records when they start.
pub(crate) async fn run(database: &mut TestDatabase, schedule: Schedule) -> Result<Measure, Failure> {
    let client = database.client(schedule.connections).await?;
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = move |job: RunningJob<NoOp>| {
        let _ = started.send((job.args.n, Instant::now()));
        std::future::ready(())
    };
    let runner = Runner::new(client.clone()).name("uniqueue bench").queue("bench", schedule.slots as usize);
    let runner = runner.worker(worker).start().await?;
    let clock = Clock::read(&mut database.connection).await?;
    let meter = Meter::start(database).await?;
    let insert = async |jobs: Vec<Due>| {
        let jobs = jobs.into_iter().map(|(number, due_at)| Kind::PLAIN.job(number).scheduled_at(due_at));
        client.insert_many(jobs).await?;
        Ok(())
    };
    let worked = async {
        schedule.insert_all(database, &clock, insert).await?;
        all_starts(&mut starts, schedule.n as usize).await
    };
    let worked = worked.await;
    runner.stop().await?;
    let starts = worked?;
    let mut measure = meter.stop(database, schedule.n).await?;
    measure.delays = Some(schedule.delays(&clock, &starts)?);
    client.pool().close().await;
    check(database, schedule).await?;
    Ok(measure)
}
