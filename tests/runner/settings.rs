//! Settings of a runner at their limits.

use std::time::Duration;

use uniqueue::{JobState, Retention, Runner, RunningJob};

use super::{Task, until};
use support::{Database, WAIT, until_sent};

#[tokio::test]
async fn settings_longer_than_any_clock_goes_are_a_hundred_years() {
    const MAX: Duration = Duration::MAX;
    let database = Database::new().await;
    let old = database.client.insert(Task { n: 1 }).await.unwrap();
    database.client.cancel(old.id()).await.unwrap();
    database.execute("UPDATE {schema}.job SET finalized_at = now() - interval '1 hour'").await;
    let runner = Runner::new(database.client.clone()).queue("default", 1).worker(|_: RunningJob<Task>| async {});
    let runner = runner.retention(Retention::forever().cancelled(Duration::from_millis(1)));
    let runner = runner.timeout(MAX).poll_interval(MAX).promote_interval(MAX).prune_interval(MAX).reindex_interval(MAX);
    let runner = runner.lease(MAX).stop_timeout(MAX).stop_grace(MAX).start().await.unwrap();
    let leased = "SELECT count(*) FROM {schema}.runner WHERE leased_until < now() + interval '101 years'";
    assert_eq!(database.number(leased).await, 1);
    // Every part of it lives: the old job is pruned, a new one is worked, and so is one after a fetch that failed.
    database.until("SELECT count(*) FROM {schema}.job", 0).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    until(&database, job.id(), JobState::Completed).await;
    database.execute("ALTER TABLE {schema}.queue RENAME TO away").await;
    let later = "INSERT INTO {schema}.job (id, kind, args) VALUES (gen_random_uuid(), 'task', '{\"n\": 2}')";
    database.execute(later).await;
    database.execute("SELECT pg_notify('{schema}.job', 'default')").await;
    until_sent("_fetch_jobs", 1).await;
    database.execute("ALTER TABLE {schema}.away RENAME TO queue").await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 2).await;
    tokio::time::timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.runner").await, 0);
}
