//! R21: a job with `expires_at` that has not started by then never starts, and is discarded with that reason.

mod inserting;
mod starting;

use support::prelude::*;

/// The error that an expired job ends with.
const EXPIRED: &str = "SELECT count(*) FROM {schema}.job
    WHERE state = 'discarded' AND attempt = 0 AND attempted_at IS NULL AND errors -> -1 ->> 'code' = 'expired'";

/// Lets the time of a job pass.
async fn pass(database: &Database, id: JobId) {
    let pass = format!("UPDATE {{schema}}.job SET expires_at = clock_timestamp() WHERE id = '{id}'");
    assert_eq!(database.execute(&pass).await, 1);
}

/// A remote worker's fetch: the kinds of the jobs that it started.
async fn fetched(database: &Database) -> Vec<String> {
    let fetch = database.sql("SELECT kind FROM {schema}.fetch_jobs('{default}', 'remote', 10)");
    sqlx::query_scalar(fetch).fetch_all(database.pool()).await.unwrap()
}

/// Starts a runner that has no slot for the jobs of the tests.
async fn caretaker(database: &Database) {
    let runner = Runner::new(database.client.clone()).queue("unworked", 1).promote_interval(Duration::from_millis(20));
    database.start(runner.worker(at_once)).await;
}
