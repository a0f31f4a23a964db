//! From end to end: some insert while one runner works.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::counter::Counter;
use super::ground::Ground;
use super::insert::join;
use super::interrupted;
use super::job::{Kind, Numbers};
use super::meter::{Measure, Meter};
use super::work::{Works, check, start};
use crate::failure::Failure;

/// Connections of those that insert.
const INSERTERS: u32 = 16;

/// Who inserts, and how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) tasks: usize,
    pub(super) duration: Duration,
    /// No more than this, however long it takes.
    pub(super) most: u64,
    pub(super) works: Works,
}

/// Inserts for a time, and works until all of it is done.
pub(super) async fn ours(ground: &mut Ground, flow: Flow) -> Result<Measure, Failure> {
    let inserter = ground.client(INSERTERS).await?;
    let client = ground.client(flow.works.connections).await?;
    let counter = Arc::new(Counter::new(u64::MAX));
    let runner = start(client.clone(), &flow.works, &counter).await?;
    let (numbers, inserted) = (Arc::new(Numbers::new(flow.most)), Arc::new(Counter::new(u64::MAX)));
    let mut tasks = JoinSet::new();
    let meter = Meter::start(ground).await?;
    let begun_at = Instant::now();
    for _ in 0..flow.tasks {
        let (client, numbers, inserted) = (inserter.clone(), Arc::clone(&numbers), Arc::clone(&inserted));
        let interrupt = ground.interrupt.clone();
        tasks.spawn(async move {
            while begun_at.elapsed() < flow.duration
                && let Some(taken) = numbers.take(1)
            {
                if interrupt.is_cancelled() {
                    return Err(interrupted());
                }
                client.insert(Kind::PLAIN.job(taken.start)).await?;
                inserted.count(taken.start);
            }
            Ok(())
        });
    }
    let flowed = async {
        join(tasks).await?;
        counter.set_goal(inserted.done());
        counter.enough(&ground.interrupt).await
    };
    let flowed = flowed.await;
    runner.stop().await?;
    flowed?;
    let done = counter.jobs();
    let measure = meter.stop(ground, done.count).await?;
    inserter.pool().close().await;
    client.pool().close().await;
    check(ground, inserted.jobs(), done, flow.works.keep).await?;
    Ok(measure)
}
