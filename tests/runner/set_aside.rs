//! Results set aside after a lock timeout: they do not delay other results, and delay each other only for a moment.
//! A statement that times out in the client ends in the server as well.

use super::line::{connections, named};
use support::prelude::*;

const COMPLETED: &str = "SELECT count(*) FROM {schema}.job WHERE state = 'completed'";

/// A runner of so many jobs, which all run, and end when they may.
async fn running(database: &Database, jobs: u32, gate: &'static Gate) {
    let work = move |_: RunningJob<Task>| gate.pass();
    database.client.insert_many((0..jobs).map(|n| Task { n })).await.unwrap();
    database.start(database.runner().queue("default", jobs as usize).worker(work)).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'running'", jobs.into()).await;
}

#[support::test]
async fn a_lock_on_something_else_than_a_job_holds_up_only_the_results_that_it_is_in_the_way_of(database: Database) {
    static GATE: Gate = Gate::closed();
    database.execute("CREATE TABLE {schema}.tenant AS SELECT n, 0 AS done FROM generate_series(0, 99) AS n").await;
    let count = "UPDATE {schema}.tenant SET done = done + 1 WHERE n = (NEW.args->>'n')::integer;";
    database.trigger("AFTER UPDATE", "NEW.state = 'completed'", count).await;
    running(&database, 100, &GATE).await;
    let open = database.begin("SELECT n FROM {schema}.tenant WHERE n IN (13, 77) FOR UPDATE").await;
    GATE.open(100);
    database.until(COMPLETED, 98).await;
    open.rollback().await.unwrap();
    database.until(COMPLETED, 100).await;
}

#[support::test]
async fn hundreds_of_results_that_wait_for_locks_keep_one_whose_lock_is_gone_for_moments_only(database: Database) {
    // The longest wait of a result that waits aside, and several times what all the others take.
    const ENOUGH: Duration = Duration::from_secs(12);
    static GATE: Gate = Gate::closed();
    running(&database, 800, &GATE).await;
    let all_but_one = database.begin("SELECT id FROM {schema}.job WHERE args->>'n' <> '790' FOR UPDATE").await;
    let one = database.begin("SELECT id FROM {schema}.job WHERE args->>'n' = '790' FOR UPDATE").await;
    GATE.open(800);
    // So long that each waits its longest between two tries.
    tokio::time::sleep(Duration::from_secs(8)).await;
    one.rollback().await.unwrap();
    let began = Instant::now();
    database.until(COMPLETED, 1).await;
    assert!(began.elapsed() < ENOUGH, "{:?}", began.elapsed());
    all_but_one.rollback().await.unwrap();
    database.until(COMPLETED, 800).await;
}

#[tokio::test]
async fn a_table_that_is_locked_for_leases_costs_no_more_connections_than_a_runner_has_and_no_attempt() {
    const LEASE: Duration = Duration::from_secs(2);
    let database = Database::new().await;
    let client = named(&database).await;
    static GO_ON: Semaphore = Semaphore::const_new(0);
    let work = async |job: RunningJob<Task>| {
        // While the table is locked, and after.
        GO_ON.acquire_many(job.args.n).await.unwrap().forget();
        job.progress("on its way");
    };
    let runner = quick(&client).lease(LEASE).poll_interval(Duration::from_millis(10)).worker(work);
    let runner = runner.start().await.unwrap();
    let id = runner.id();
    let [ends_meanwhile, ends_after] = [1, 100].map(|n| database.client.insert(Task { n }));
    let [ends_meanwhile, ends_after] = [ends_meanwhile.await.unwrap(), ends_after.await.unwrap()];
    for job in [&ends_meanwhile, &ends_after] {
        database.until_state(job.id(), JobState::Running).await;
    }
    let rebuild = database.begin("LOCK TABLE {schema}.job IN ACCESS EXCLUSIVE MODE").await;
    GO_ON.add_permits(1);
    let began = Instant::now();
    let mut most = 0;
    while began.elapsed() < LEASE * 3 {
        most = most.max(connections(&database).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rebuild.rollback().await.unwrap();
    assert!(most <= 7, "one of the pool, two that stand, up to four for fetches and results: {most}");
    GO_ON.add_permits(100);
    for job in [ends_meanwhile, ends_after] {
        let row = database.until_state(job.id(), JobState::Completed).await;
        assert_eq!((row.attempt, row.worker, row.errors.len()), (1, Some(id), 0));
    }
    runner.stop().await.unwrap();
}
