//! How soon a child starts after its parent, with an idle runner and beside other jobs.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use uniqueue::{Client, Job, NewJob, Runner, RunningJob};

use crate::delays::{Delays, all_starts};
use crate::failure::Failure;
use crate::failures::{interrupted, wrong};
use crate::job::{Kind, NoOp};
use crate::meter::{Measure, Meter};
use crate::test_database::TestDatabase;

/// Waits between two pairs. After the longer one the service that releases children sleeps.
const WAITS: [Duration; 2] = [Duration::from_millis(30), Duration::from_millis(700)];

/// Pairs before the first that counts.
const WARM_UP: u64 = 10;

/// The other jobs come in calls of this many.
const BATCH: u32 = 500;

/// Pairs of a parent and a child, inserted one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Releases {
    pub(crate) n: u64,
    pub(crate) connections: u32,
    /// Jobs that a runner works at once.
    pub(crate) slots: u32,
    /// Other jobs that are inserted and worked in each second.
    pub(crate) others: u32,
}

#[derive(Deserialize, Job, Serialize)]
#[job(kind = "bench.parent", queue = "pairs")]
struct Parent {
    n: u64,
}

#[derive(Deserialize, Job, Serialize)]
#[job(kind = "bench.child", queue = "pairs")]
struct Child {
    n: u64,
}

/// Inserts pairs, and records when each parent ended and its child started.
pub(crate) async fn run(database: &mut TestDatabase, releases: Releases) -> Result<Measure, Failure> {
    let Releases { n, connections, slots, others } = releases;
    let client = database.client(connections).await?;
    let (ended, mut ends) = mpsc::unbounded_channel();
    let (started, mut starts) = mpsc::unbounded_channel();
    let parent = move |job: RunningJob<Parent>| {
        let _ = ended.send((job.args.n, Instant::now()));
        std::future::ready(())
    };
    let child = move |job: RunningJob<Child>| {
        let _ = started.send((job.args.n, Instant::now()));
        std::future::ready(())
    };
    let runner = Runner::new(client.clone()).name("uniqueue bench").worker(parent).worker(child);
    let runner = runner.queue("pairs", 100).queue("bench", slots as usize).worker(async |_: RunningJob<NoOp>| {});
    let runner = runner.start().await?;
    let beside = tokio::spawn(insert_others(client.clone(), others));
    let measured = async {
        let meter = Meter::start(database).await?;
        for number in 0..WARM_UP + n {
            if database.interrupt.is_cancelled() {
                return Err(interrupted());
            }
            let first = NewJob::from(Parent { n: number });
            let second = NewJob::from(Child { n: number }).after(&first);
            client.insert_many([first, second]).await?;
            tokio::time::sleep(WAITS[usize::from(number % 2 == 1)]).await;
        }
        let pairs = usize::try_from(WARM_UP + n).unwrap_or(usize::MAX);
        let (mut ends, mut starts) = (all_starts(&mut ends, pairs).await?, all_starts(&mut starts, pairs).await?);
        let mut measure = meter.stop(database, n).await?;
        ends.sort_unstable();
        starts.sort_unstable();
        let delays = ends.iter().zip(&starts).skip(usize::try_from(WARM_UP).unwrap_or_default());
        measure.delays =
            Some(Delays::of(delays.map(|((_, ended), (_, started))| started.saturating_duration_since(*ended))));
        Ok(measure)
    };
    let measured = measured.await;
    beside.abort();
    if let Ok(Err(error)) = beside.await {
        return Err(wrong(format!("the other jobs cannot be inserted: {error}")));
    }
    runner.stop().await?;
    client.pool().close().await;
    measured
}

/// Inserts this many jobs in each second, for ever.
async fn insert_others(client: Client, rate: u32) -> uniqueue::Result<()> {
    if rate == 0 {
        return Ok(());
    }
    let mut ticks = tokio::time::interval(Duration::from_secs(1) * BATCH / rate);
    let mut number = 0;
    loop {
        ticks.tick().await;
        client
            .insert_many((0..BATCH).map(|_| {
                number += 1;
                Kind::PLAIN.job(number)
            }))
            .await?;
    }
}
