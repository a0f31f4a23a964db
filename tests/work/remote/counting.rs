//! The counts of a remote worker's results, in the list of runners and in the rates.

use sqlx::Connection;

use super::Remote;
use support::{Database, job};

/// Time goes by: a minute for what the session counted, and an hour for what the worker's row says.
async fn pass(database: &Database) {
    let of_row = "UPDATE {schema}.runner SET started_at = started_at - interval '1 hour', counted_at = counted_at - interval '1 hour'";
    database.execute(of_row).await;
    pass_in_session(database).await;
}

async fn pass_in_session(database: &Database) {
    let of_session = "SELECT set_config('uniqueue.worked', coalesce((
        SELECT jsonb_object_agg(w.name, jsonb_build_array(w.counts -> 0, w.counts -> 1, (w.counts ->> 2)::float8 - 60))::text
        FROM jsonb_each(nullif(current_setting('uniqueue.worked', true), '')::jsonb) AS w (name, counts)
    ), '{}'), false)";
    database.execute(of_session).await;
}

async fn counts(database: &Database) -> (u64, u64) {
    let runners = database.client.runners().await.unwrap();
    let [runner] = runners.as_slice() else { panic!("{runners:?}") };
    (runner.completed, runner.failed)
}

/// Completed and failed jobs in an hour.
async fn rates(database: &Database) -> (f64, f64) {
    let rates = database.client.stats().await.unwrap().rates;
    ((rates.completed * 3_600.0).round(), (rates.failed * 3_600.0).round())
}

#[tokio::test]
async fn results_are_counted_for_their_worker_and_its_rate_falls_when_it_is_idle() {
    let database = Database::with_connections(1).await;
    database.client.insert_many((0..9).map(|_| job("j").max_attempts(1))).await.unwrap();
    let worker = Remote::new(&database, "w");
    let jobs = worker.fetch(9).await;
    worker.end(&jobs[..3], "complete_jobs", "").await;
    worker.end(&jobs[3..4], "fail_jobs", ", ARRAY['bad']").await;
    worker.end(&jobs[4..5], "give_back_jobs", "").await;
    worker.end(&jobs[5..6], "finish_jobs", ", ARRAY['cancel'], errors => ARRAY['no']").await;
    worker.end(&jobs[6..7], "finish_jobs", ", ARRAY['discard'], errors => ARRAY['no']").await;
    // A result that does not count is not counted.
    worker.end(&jobs[..3], "complete_jobs", "").await;
    assert_eq!(counts(&database).await, (0, 0), "not yet written");
    pass(&database).await;
    worker.end(&jobs[7..8], "finish_jobs", ", ARRAY['complete'], outputs => ARRAY['1']").await;
    assert_eq!(counts(&database).await, (4, 2));
    assert_eq!(rates(&database).await, (4.0, 2.0));
    // After the last result of all, a fetch writes it.
    worker.complete(&jobs[8]).await;
    pass(&database).await;
    worker.end(&worker.fetch(9).await, "snooze_jobs", ", ARRAY[interval '1 hour']").await;
    assert_eq!(counts(&database).await, (5, 2));
    assert_eq!(rates(&database).await, (1.0, 0.0));
    pass(&database).await;
    worker.fetch(1).await;
    assert_eq!((counts(&database).await, rates(&database).await), ((5, 2), (0.0, 0.0)));
}

#[tokio::test]
async fn a_locked_row_of_the_worker_holds_up_no_result_and_loses_no_count() {
    let database = Database::with_connections(1).await;
    database.client.insert_many((0..2).map(|_| job("j"))).await.unwrap();
    let worker = Remote::new(&database, "w");
    let jobs = worker.fetch(2).await;
    pass(&database).await;
    let other = database.another_pool(1).await;
    let mut locking = other.acquire().await.unwrap();
    let mut locking = locking.begin().await.unwrap();
    let lock = database.sql("SELECT FROM {schema}.runner FOR UPDATE");
    sqlx::raw_sql(lock).execute(&mut *locking).await.unwrap();
    worker.complete(&jobs[0]).await;
    // What is counted in a transaction that is rolled back is not.
    let mut undone = database.pool().begin().await.unwrap();
    let complete =
        format!("SELECT FROM {{schema}}.complete_jobs(ARRAY['{}'::uuid], ARRAY[{}])", jobs[1].id, jobs[1].run);
    sqlx::raw_sql(database.sql(&complete)).execute(&mut *undone).await.unwrap();
    undone.rollback().await.unwrap();
    pass_in_session(&database).await;
    worker.fetch(1).await;
    assert_eq!(counts(&database).await, (0, 0));
    locking.rollback().await.unwrap();
    worker.fetch(1).await;
    assert_eq!(counts(&database).await, (1, 0));
}
