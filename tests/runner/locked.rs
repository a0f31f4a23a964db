//! A table that stays locked: a statement that times out in the client ends in the server as well.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use uniqueue::{JobState, RunningJob};

use super::line::{connections, named};
use super::{Task, quick, until};
use support::Database;

#[tokio::test]
async fn a_table_that_is_locked_for_leases_costs_no_more_connections_than_a_runner_has_and_no_attempt() {
    const LEASE: Duration = Duration::from_secs(2);
    let database = Database::new().await;
    let client = named(&database).await;
    let go_on = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&go_on);
    let work = move |job: RunningJob<Task>| {
        let gate = Arc::clone(&gate);
        async move {
            // While the table is locked, and after.
            gate.acquire_many(job.args.n).await.unwrap().forget();
            job.progress("on its way");
        }
    };
    let runner = quick(&client).lease(LEASE).poll_interval(Duration::from_millis(10)).worker(work);
    let runner = runner.start().await.unwrap();
    let id = runner.id();
    let [ends_meanwhile, ends_after] = [1, 100].map(|n| database.client.insert(Task { n }));
    let [ends_meanwhile, ends_after] = [ends_meanwhile.await.unwrap(), ends_after.await.unwrap()];
    for job in [&ends_meanwhile, &ends_after] {
        until(&database, job.id(), JobState::Running).await;
    }
    let mut rebuild = database.pool().begin().await.unwrap();
    let lock = database.sql("LOCK TABLE {schema}.job IN ACCESS EXCLUSIVE MODE");
    sqlx::raw_sql(lock).execute(&mut *rebuild).await.unwrap();
    go_on.add_permits(1);
    let began = Instant::now();
    let mut most = 0;
    while began.elapsed() < LEASE * 3 {
        most = most.max(connections(&database).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rebuild.rollback().await.unwrap();
    assert!(most <= 7, "one of the pool, two that stand, up to four for fetches and results: {most}");
    go_on.add_permits(100);
    for job in [ends_meanwhile, ends_after] {
        let row = until(&database, job.id(), JobState::Completed).await;
        assert_eq!((row.attempt, row.worker, row.errors.len()), (1, Some(id), 0));
    }
    runner.stop().await.unwrap();
}
