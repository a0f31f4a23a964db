//! Slow rows, with a trigger or with rows that reference them: after a statement timeout the batches are smaller.

use super::caretaker;
use super::pruning::final_jobs;
use super::rescuing::die;
use support::prelude::*;

/// More than a batch takes, so long each that the batch takes longer than a statement may: five seconds.
const JOBS: u32 = 2000;
const HALF: i64 = 1000;
const TAKES: f64 = 0.006;

async fn slow(database: &Database, event: &str, about: &str, takes: f64) {
    database.trigger(&format!("BEFORE {event}"), about, &format!("PERFORM pg_sleep({takes});")).await;
}

/// Runs a runner until so few of these jobs are left: the statements that are ended first take five seconds each.
async fn run_until(database: &Database, runner: Runner, left: i64, jobs: &str) {
    let count = format!("SELECT count(*) FROM {{schema}}.job WHERE {jobs}");
    assert!(database.number(&count).await > left);
    let runner = runner.start().await.unwrap();
    eventually!(database.number(&count).await <= left, "they wait");
    runner.stop().await.unwrap();
}

// Each mostly sleeps, so they do it together.
#[tokio::test]
async fn jobs_that_take_long_are_pruned_promoted_and_rescued_in_smaller_batches() {
    tokio::join!(many_are_pruned(), many_are_promoted(), many_are_rescued());
}

#[tokio::test]
async fn a_job_that_takes_longer_than_a_statement_may_holds_up_no_other() {
    tokio::join!(others_are_pruned(), others_are_promoted(), others_are_rescued());
}

async fn many_are_pruned() {
    let database = Database::new().await;
    final_jobs(&database, "a", "completed", 8 * 3600, JOBS).await;
    slow(&database, "DELETE", "true", TAKES).await;
    let retention = Retention::forever().completed(HOUR);
    let runner = caretaker(&database).retention(retention).prune_interval(Duration::from_millis(10));
    run_until(&database, runner, HALF, "state = 'completed'").await;
}

async fn many_are_promoted() {
    let database = Database::new().await;
    let jobs = (0..JOBS).map(|n| NewJob::from(Task { n }).scheduled_in(Duration::from_millis(1)));
    database.client.insert_many(jobs).await.unwrap();
    slow(&database, "UPDATE", "true", TAKES).await;
    run_until(&database, caretaker(&database), HALF, "state IN ('scheduled', 'retryable')").await;
}

async fn many_are_rescued() {
    let database = Database::new().await;
    database.client.insert_many((0..JOBS).map(|n| Task { n })).await.unwrap();
    die(&database, Duration::ZERO).await;
    slow(&database, "UPDATE", "true", TAKES).await;
    run_until(&database, caretaker(&database), HALF, "state = 'running'").await;
}

async fn others_are_promoted() {
    let database = Database::new().await;
    let jobs = (0..5).map(|n| NewJob::from(Task { n }).scheduled_in(Duration::from_millis(1)));
    database.client.insert_many(jobs).await.unwrap();
    let first = "UPDATE {schema}.job SET scheduled_at = scheduled_at - interval '1 s' WHERE args->>'n' = '0'";
    assert_eq!(database.execute(first).await, 1);
    slow(&database, "UPDATE", "OLD.args->>'n' = '0'", 6.0).await;
    run_until(&database, caretaker(&database), 1, "state IN ('scheduled', 'retryable')").await;
}

#[support::test]
async fn a_job_whose_change_waits_for_a_lock_of_the_application_holds_up_no_other(database: Database) {
    let jobs = (0..5).map(|n| NewJob::from(Task { n }).scheduled_in(Duration::from_millis(1)));
    database.client.insert_many(jobs).await.unwrap();
    database.execute("CREATE TABLE {schema}.report (n integer)").await;
    database.trigger("BEFORE UPDATE", "OLD.args->>'n' = '0'", "LOCK TABLE {schema}.report;").await;
    let locking = database.begin("LOCK TABLE {schema}.report").await;
    run_until(&database, caretaker(&database), 1, "state IN ('scheduled', 'retryable')").await;
    locking.rollback().await.unwrap();
    run_until(&database, caretaker(&database), 0, "state IN ('scheduled', 'retryable')").await;
}

async fn others_are_rescued() {
    let database = Database::new().await;
    database.client.insert_many((0..5).map(|n| Task { n })).await.unwrap();
    die(&database, Duration::ZERO).await;
    slow(&database, "UPDATE", "OLD.args->>'n' = '0'", 6.0).await;
    run_until(&database, caretaker(&database), 1, "state = 'running'").await;
}

async fn others_are_pruned() {
    let database = Database::new().await;
    final_jobs(&database, "slow", "completed", 9 * 3600, 1).await;
    final_jobs(&database, "a", "completed", 8 * 3600, 5).await;
    slow(&database, "DELETE", "OLD.queue = 'slow'", 6.0).await;
    let retention = Retention::forever().completed(HOUR);
    let runner = caretaker(&database).retention(retention).prune_interval(Duration::from_millis(10));
    run_until(&database, runner, 1, "state = 'completed'").await;
}

#[tokio::test]
async fn a_network_that_falls_silent_in_the_hands_of_the_reindexer_holds_up_the_others_for_seconds_and_not_for_its_day()
{
    let database = Database::new().await;
    let proxy = Proxy::before(&database.url).await;
    let client = database.client_at(&proxy.url(), 1).await;
    // One that waits for the connection, so that no other notices the silence for it.
    let off = "INSERT INTO {schema}.maintenance (service, leased_until)
        SELECT unnest(ARRAY['rescuer', 'pruner', 'periodic']), 'infinity'";
    database.execute(off).await;
    // The reindexer looks all the time, so the silence most probably meets it.
    let runner = Runner::new(client).queue("other", 1).lease(Duration::from_secs(2));
    let runner = runner.reindex_interval(Duration::from_millis(1)).worker(at_once);
    let runner = runner.start().await.unwrap();
    let holds =
        "SELECT count(*) FROM {schema}.maintenance WHERE holder IS NOT NULL AND service IN ('promoter', 'reindexer')";
    eventually!(database.number(holds).await == 2, "no runner does it");
    // The promoter has had its first turn then, and rests.
    tokio::time::sleep(Duration::from_millis(300)).await;
    proxy.freeze();
    let due = database.client.insert(Task { n: 1 }).scheduled_in(Duration::from_millis(100)).await.unwrap();
    database.until_state(due.id(), JobState::Available).await;
    let _ = timeout(WAIT, runner.stop()).await.unwrap();
}
