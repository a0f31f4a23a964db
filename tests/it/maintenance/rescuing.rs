//! The jobs of a dead runner run again after its lease. A job that kills its runners does so only up to its last
//! attempt.

use std::time::Duration;

use uniqueue::JobState;

use super::{Task, caretaker, until};
use crate::support::Database;

/// Gives all jobs to a runner that dies now, with so much of its lease left.
pub(super) async fn die(database: &Database, left: Duration) {
    let given = format!(
        "WITH dead AS (
            INSERT INTO {{schema}}.runner (id, name, queues, leased_until)
            VALUES (gen_random_uuid(), 'dead', '{{}}', now() + interval '{} ms') RETURNING id
        )
        UPDATE {{schema}}.job SET state = 'running', worker = dead.id, attempt = attempt + 1 FROM dead",
        left.as_millis()
    );
    database.execute(&given).await;
}

#[tokio::test]
async fn the_rescuer_is_awake_when_a_lease_runs_out() {
    let database = Database::new().await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    die(&database, Duration::from_secs(2)).await;
    // On its own it would look every ten seconds only.
    let runner = caretaker(&database).lease(Duration::from_secs(3600)).queue("default", 1).start().await.unwrap();
    until("not rescued", async || database.client.job(job.id()).await.unwrap().unwrap().state == JobState::Completed)
        .await;
    let waited = "SELECT (extract(epoch FROM j.attempted_at - r.leased_until) * 1000)::bigint
        FROM {schema}.job AS j, {schema}.runner AS r WHERE r.name = 'dead'";
    let waited = database.number(waited).await;
    assert!((0..8_000).contains(&waited), "back {waited} ms after the lease");
    runner.stop().await.unwrap();
}

#[tokio::test]
async fn a_job_that_keeps_killing_its_worker_is_discarded_and_says_why() {
    let database = Database::new().await;
    let killer = database.client.insert(Task { n: 1 }).queue("unworked").max_attempts(2).await.unwrap();
    let runner = caretaker(&database).lease(Duration::from_secs(1)).start().await.unwrap();
    for state in [JobState::Available, JobState::Discarded] {
        die(&database, Duration::ZERO).await;
        until("not rescued", async || database.client.job(killer.id()).await.unwrap().unwrap().state == state).await;
    }
    runner.stop().await.unwrap();
    let row = database.client.job(killer.id()).await.unwrap().unwrap();
    let said: Vec<_> = row.errors.iter().map(|error| (error.attempt, error.error.as_str())).collect();
    let rescued = "rescued: the runner died or lost its lease";
    let discarded = "rescued: the runner died or lost its lease; discarded: no attempt is left of 2";
    assert_eq!(said, [(1, rescued), (2, discarded)]);
}
