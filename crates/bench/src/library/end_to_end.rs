//! From end to end with a client and a runner.

use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinSet;

use super::work::start;
use crate::counter::Counter;
use crate::end_to_end::{EndToEnd, INSERT_CONNECTIONS};
use crate::failure::Failure;
use crate::job::Kind;
use crate::meter::{Measure, Meter};
use crate::tasks::{Numbers, join};
use crate::test_database::TestDatabase;
use crate::work::check;

/// Inserts for a time, and works until all jobs are done.
pub(crate) async fn run(database: &mut TestDatabase, end_to_end: EndToEnd) -> Result<Measure, Failure> {
    let inserter = database.client(INSERT_CONNECTIONS).await?;
    let client = database.client(end_to_end.work.runners.connections).await?;
    let counter = Arc::new(Counter::new(u64::MAX));
    let runner = start(client.clone(), &end_to_end.work, &counter).await?;
    let numbers = Arc::new(Numbers::new(end_to_end.most, &database.interrupt));
    let inserted = Arc::new(Counter::new(u64::MAX));
    let mut tasks = JoinSet::new();
    let meter = Meter::start(database).await?;
    let begun_at = Instant::now();
    for _ in 0..end_to_end.tasks {
        let (client, numbers, inserted) = (inserter.clone(), Arc::clone(&numbers), Arc::clone(&inserted));
        tasks.spawn(async move {
            while begun_at.elapsed() < end_to_end.duration
                && let Some(taken) = numbers.take(1)?
            {
                client.insert(Kind::PLAIN.job(taken.start)).await?;
                inserted.count(taken.start);
            }
            Ok(())
        });
    }
    let finished = async {
        join(tasks).await?;
        counter.set_goal(inserted.done());
        counter.enough(&database.interrupt).await
    };
    let finished = finished.await;
    runner.stop().await?;
    finished?;
    let done = counter.jobs();
    let measure = meter.stop(database, done.count).await?;
    inserter.pool().close().await;
    client.pool().close().await;
    check(database, inserted.jobs(), done, end_to_end.work.keep).await?;
    Ok(measure)
}
