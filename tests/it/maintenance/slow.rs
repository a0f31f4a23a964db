//! Rows that take long each, because of a trigger or of rows that refer to them: what takes longer than a statement may is
//! done in smaller batches.

use std::time::Duration;

use uniqueue::{Retention, Runner};

use super::pruning::final_jobs;
use super::rescuing::die;
use super::{Task, caretaker, until};
use crate::support::Database;

/// More than a batch takes, so long each that the batch takes longer than a statement may: five seconds.
const JOBS: u32 = 2000;
const TAKES: f64 = 0.006;

async fn slow(database: &Database, event: &str) {
    let function = format!(
        "CREATE FUNCTION {{schema}}.slow() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_sleep({TAKES}); RETURN coalesce(NEW, OLD); END $$"
    );
    database.execute(&function).await;
    let trigger =
        format!("CREATE TRIGGER slow BEFORE {event} ON {{schema}}.job FOR EACH ROW EXECUTE FUNCTION {{schema}}.slow()");
    database.execute(&trigger).await;
}

/// Waits until some batches are done and fewer than `left` of the jobs that these look for are left.
async fn done(database: &Database, runner: Runner, left: &str) {
    let left = format!("SELECT count(*) FROM {{schema}}.job WHERE {left}");
    assert_eq!(database.number(&left).await, i64::from(JOBS));
    let runner = runner.start().await.unwrap();
    until("nothing is done", async || database.number(&left).await < i64::from(JOBS / 2)).await;
    runner.stop().await.unwrap();
}

#[tokio::test]
async fn jobs_that_take_long_to_delete_are_pruned_in_smaller_batches() {
    let database = Database::new().await;
    final_jobs(&database, "a", "completed", 8 * 3600, JOBS).await;
    slow(&database, "DELETE").await;
    let retention = Retention::forever().completed(Duration::from_secs(3600));
    let runner = caretaker(&database).retention(retention).prune_interval(Duration::from_millis(10));
    done(&database, runner, "state = 'completed'").await;
}

#[tokio::test]
async fn jobs_that_take_long_to_change_are_promoted_in_smaller_batches() {
    let database = Database::new().await;
    let jobs = (0..JOBS).map(|n| uniqueue::NewJob::from(Task { n }).scheduled_in(Duration::from_millis(1)));
    database.client.insert_many(jobs).await.unwrap();
    slow(&database, "UPDATE").await;
    done(&database, caretaker(&database), "waiting").await;
}

#[tokio::test]
async fn jobs_that_take_long_to_change_are_rescued_in_smaller_batches() {
    let database = Database::new().await;
    database.client.insert_many((0..JOBS).map(|n| Task { n })).await.unwrap();
    die(&database, Duration::ZERO).await;
    slow(&database, "UPDATE").await;
    done(&database, caretaker(&database), "state = 'running'").await;
}
