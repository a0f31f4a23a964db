//! The cost of running a job.

use support::prelude::*;

use super::{BATCH, Quiet, Reading, Task, cost_of, url};

const JOBS: i64 = 5 * BATCH;

/// What working all jobs took.
struct Work {
    reading: Reading,
    statements: [usize; 2],
    wal: i64,
}

/// Works jobs with a runner that ends when all of them ran, and answers with how many statements fetched and how many
/// completed.
async fn work(retention: Retention) -> [usize; 2] {
    let pool = PgPoolOptions::new().max_connections(2).acquire_timeout(WAIT).connect(url()).await.unwrap();
    let (worked, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let counting = (Arc::clone(&worked), Arc::clone(&enough));
    let work = move |_: RunningJob<Task>| {
        if counting.0.fetch_add(1, Ordering::AcqRel) + 1 == JOBS as usize {
            counting.1.notify_one();
        }
        async {}
    };
    let (_, sent) = statements_of(async {
        let runner = Runner::new(Client::new(pool.clone())).queue("default", BATCH as usize).worker(work);
        let runner = runner.lease(3 * WAIT).retention(retention).start().await.unwrap();
        timeout(WAIT, enough.notified()).await.expect("the jobs to run");
        runner.stop().await.unwrap();
    })
    .await;
    // A connection tells what it did when it ends.
    pool.close().await;
    assert_eq!(worked.load(Ordering::Acquire) as i64, JOBS);
    let count = |what: &str| sent.iter().filter(|statement| statement.contains(what)).count();
    [count("-- Takes the next jobs"), count("-- Completes runs")]
}

/// Works all jobs, again where this process stood still: a runner gives back what has lain for a second, and writes
/// it once more. What jobs cost by themselves they cost each time.
async fn undisturbed(retention: Retention, updates: i64) -> Work {
    for trial in 1.. {
        let quiet = Quiet::new().await;
        quiet.client.insert_many(Quiet::jobs(JOBS)).await.unwrap();
        quiet.client.pool().close().await;
        let (statements, wal, _) = cost_of(JOBS, work(retention)).await;
        let reading = quiet.reading(3 * JOBS).await;
        if (reading.updated <= updates && are_few(statements)) || trial == 3 {
            return Work { reading, statements, wal };
        }
        println!("{} updates, {statements:?} statements at trial {trial}", reading.updated);
    }
    unreachable!()
}

/// A thousand slots take five fetches of a thousand at best, and thrice as many since fetches do not wait until all are
/// free. Results are recorded as they come, some 70 at a time where one thread does everything, as here.
fn are_few([fetches, completions]: [usize; 2]) -> bool {
    (5..=40).contains(&fetches) && (5..=200).contains(&completions)
}

#[tokio::test]
async fn job_is_written_twice_after_its_insert_and_travels_in_batches() {
    let Work { reading, statements, wal } = undisturbed(Retention::default(), 2 * JOBS).await;
    assert_eq!((reading.inserted, reading.updated, reading.deleted), (JOBS, 2 * JOBS, 0));
    assert!(wal < 900, "{wal} bytes of WAL a job");
    assert!(are_few(statements), "{statements:?} fetches and completions for {JOBS} jobs");
}

#[tokio::test]
async fn job_that_is_not_kept_is_written_once_and_deleted() {
    let retention = Retention::default().completed(Duration::ZERO);
    let Work { reading, statements, wal } = undisturbed(retention, JOBS).await;
    assert_eq!((reading.inserted, reading.updated, reading.deleted), (JOBS, JOBS, JOBS));
    assert!(wal < 610, "{wal} bytes of WAL a job");
    assert!(are_few(statements), "{statements:?} fetches and completions for {JOBS} jobs");
}
