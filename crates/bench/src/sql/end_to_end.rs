//! From end to end with SQL: connections that insert, and loops that work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::insert::Inserter;
use super::work::{Worker, worker_connections};
use crate::counter::Counter;
use crate::end_to_end::{EndToEnd, INSERT_CONNECTIONS};
use crate::failure::Failure;
use crate::insert::Call;
use crate::job::{Kind, NoOp};
use crate::meter::{Measure, Meter};
use crate::statement::Table;
use crate::tasks::{Numbers, join};
use crate::test_database::TestDatabase;
use crate::work::check;

/// How long a loop that found no job waits before it fetches again.
const POLL: Duration = Duration::from_millis(5);

/// Inserts for a time, and works until all jobs are done.
pub(crate) async fn run(database: &mut TestDatabase, table: Table, end_to_end: EndToEnd) -> Result<Measure, Failure> {
    let inserter = Inserter::new(database, table, Call::Single, Kind::PLAIN);
    let worker = Worker::new(database, table, &end_to_end.work);
    let numbers = Arc::new(Numbers::new(end_to_end.most, &database.interrupt));
    let (inserted, done) = (Arc::new(Counter::new(u64::MAX)), Arc::new(Counter::new(u64::MAX)));
    let inserting = database.connections(INSERT_CONNECTIONS).await?;
    let working = worker_connections(database, end_to_end.work.loops.connections).await?;
    let all_inserted = CancellationToken::new();
    let (mut inserts, mut works) = (JoinSet::new(), JoinSet::new());
    let meter = Meter::start(database).await?;
    let begun_at = Instant::now();
    for mut connection in inserting {
        let (inserter, numbers, inserted) = (inserter.clone(), Arc::clone(&numbers), Arc::clone(&inserted));
        inserts.spawn(async move {
            while begun_at.elapsed() < end_to_end.duration
                && let Some(taken) = numbers.take(1)?
            {
                inserter.send(&mut connection, vec![taken.start]).await?;
                inserted.count(taken.start);
            }
            Ok(())
        });
    }
    for mut connection in working {
        let (worker, done, all_inserted) = (worker.clone(), Arc::clone(&done), all_inserted.clone());
        works.spawn(async move {
            loop {
                // Read before the fetch, which then finds all jobs that are left.
                let is_last = all_inserted.is_cancelled();
                let count = |job: NoOp| done.count(std::hint::black_box(job).n);
                match worker.work(&mut connection, count).await? {
                    0 if is_last => return Ok(()),
                    0 => tokio::time::sleep(POLL).await,
                    _ => {}
                }
            }
        });
    }
    join(inserts).await?;
    all_inserted.cancel();
    join(works).await?;
    let jobs = done.jobs();
    let measure = meter.stop(database, jobs.count).await?;
    check(database, table, inserted.jobs(), jobs, end_to_end.work.keep).await?;
    Ok(measure)
}
