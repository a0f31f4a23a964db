//! What a job's own state says.

use support::prelude::*;
use uniqueue_admin::ObstacleCode;

use super::{codes, first, gone, insert, put, remedy, runner, start};

#[support::test]
async fn r23_pending_until_it_is_released(database: Database) {
    runner(&database, "default", 1).await;
    let id = put(&database, job("a").pending()).await;
    let pending = first(&database, id, ObstacleCode::Pending).await;
    assert_eq!(pending.reason, "The job is pending until it is released.");
    remedy(&database, &pending).await;
    assert_eq!(codes(&database, id).await, [ObstacleCode::Next]);
}

#[support::test]
async fn r23_scheduled_until_it_is_due_and_not_promoted_from_then_on(database: Database) {
    let runner = runner(&database, "default", 1).await;
    let id = put(&database, job("a").scheduled_in(Duration::from_secs(60))).await;
    let scheduled = first(&database, id, ObstacleCode::Scheduled).await;
    assert!(scheduled.details["until"].is_string(), "{scheduled:?}");
    database.execute("UPDATE {schema}.job SET scheduled_at = now()").await;
    assert_eq!(codes(&database, id).await, [ObstacleCode::NotPromoted]);
    let alive = first(&database, id, ObstacleCode::NotPromoted).await.remedy.unwrap();
    assert!(alive.contains("service = 'promoter'"), "{alive}");
    database.execute(&format!("UPDATE {{schema}}.runner SET leased_until = now() WHERE id = '{runner}'")).await;
    let alone = first(&database, id, ObstacleCode::NotPromoted).await.remedy.unwrap();
    assert!(alone.starts_with("Start a runner"), "{alone}");
    database.set_state(id, "available").await;
    gone(&database, id, ObstacleCode::NotPromoted).await;
}

#[support::test]
async fn r23_retryable_until_its_next_attempt(database: Database) {
    runner(&database, "default", 1).await;
    let id = insert(&database).await;
    database.set_state(id, "retryable").await;
    database.execute("UPDATE {schema}.job SET scheduled_at = now() + interval '1 hour', attempt = 3").await;
    let retryable = first(&database, id, ObstacleCode::Retryable).await;
    assert!(retryable.reason.starts_with("Attempt 4 of 25 is due at "), "{}", retryable.reason);
    remedy(&database, &retryable).await;
    assert_eq!(codes(&database, id).await, [ObstacleCode::Next]);
}

#[support::test]
async fn r23_a_job_that_waits_for_its_time_hears_of_what_will_hold_it_then(database: Database, client: &Client) {
    let id = put(&database, job("a").scheduled_in(Duration::from_secs(3_600))).await;
    let mine = [ObstacleCode::Scheduled, ObstacleCode::QueueUnworked];
    assert_eq!(codes(&database, id).await, mine);
    client.queue("default").hold(Duration::from_secs(60)).await.unwrap();
    assert_eq!(codes(&database, id).await, mine, "the hold ends before the job is due");
    client.queue("default").hold(Duration::from_secs(7_200)).await.unwrap();
    client.queue("default").pause().await.unwrap();
    let [scheduled, unworked] = mine;
    let all = [scheduled, ObstacleCode::QueuePaused, ObstacleCode::QueueHeld, unworked];
    assert_eq!(codes(&database, id).await, all);
}

#[support::test]
async fn r23_a_job_that_runs_says_so_and_so_does_one_whose_runner_died(database: Database) {
    let runner = runner(&database, "default", 1).await;
    let id = insert(&database).await;
    start(&database, id, &runner).await;
    let running = first(&database, id, ObstacleCode::Running).await;
    assert!(running.reason.ends_with("on runner \"one\"."), "{}", running.reason);
    assert_eq!(codes(&database, id).await.len(), 1);
    database.execute("UPDATE {schema}.runner SET leased_until = now() - interval '1 s'").await;
    assert_eq!(codes(&database, id).await, [ObstacleCode::RunnerDied]);
    database.execute("DELETE FROM {schema}.runner").await;
    assert_eq!(codes(&database, id).await, [ObstacleCode::RunnerDied]);
    database.set_state(id, "available").await;
    gone(&database, id, ObstacleCode::RunnerDied).await;
}

#[support::test]
async fn r23_a_final_job_says_so(database: Database) {
    for state in ["completed", "cancelled", "discarded"] {
        let id = insert(&database).await;
        database.set_state(id, state).await;
        let done = first(&database, id, ObstacleCode::Final).await;
        assert!(done.reason.contains(state), "{}", done.reason);
        assert_eq!(codes(&database, id).await.len(), 1);
        database.client.retry([id]).await.unwrap();
        assert_eq!(database.client.job(id).await.unwrap().unwrap().state, JobState::Available);
        gone(&database, id, ObstacleCode::Final).await;
    }
}

#[support::test]
async fn r21_a_job_that_expires_says_when_until_it_is_discarded(database: Database) {
    runner(&database, "default", 1).await;
    let id = put(&database, job("a").expires_in(Duration::from_secs(60))).await;
    assert_eq!(codes(&database, id).await, [ObstacleCode::Next, ObstacleCode::Expires]);
    let last = super::why(&database, id).await.pop().unwrap();
    assert!(last.reason.starts_with("The job is discarded if it has not started by 2"), "{last:?}");
    assert!(!ObstacleCode::Expires.is_obstacle());
    database.execute("UPDATE {schema}.job SET expires_at = now()").await;
    assert_eq!(codes(&database, id).await, [ObstacleCode::Expired]);
    database.execute("SELECT {schema}._run_service('expirer')").await;
    assert_eq!(codes(&database, id).await, [ObstacleCode::Final]);
}

#[support::test]
async fn a_job_waits_for_its_parents_first(database: Database) {
    let parents = [job("b").queue("unworked"), job("b")];
    let child = job("a").after(&parents);
    let inserted = database.client.insert_many(parents.into_iter().chain([child])).await.unwrap();
    let [one, two, child] = [0, 1, 2].map(|place| inserted[place].id());
    let obstacle = first(&database, child, ObstacleCode::Parents).await;
    assert!(obstacle.reason.starts_with("The job runs after 2 jobs that have not ended. One is job "), "{obstacle:?}");
    assert!(obstacle.reason.ends_with(" (b), which is available."), "{obstacle:?}");
    database.set_state(one, "completed").await;
    database.execute("SELECT {schema}._release_step(1000, NULL, NULL, NULL)").await;
    let obstacle = first(&database, child, ObstacleCode::Parents).await;
    assert_eq!(obstacle.reason, format!("The job runs after job {two} (b), which is available."));
    assert_eq!(obstacle.details["parent"], two.to_string());
    remedy(&database, &obstacle).await;
    database.set_state(two, "completed").await;
    let obstacle = first(&database, child, ObstacleCode::Parents).await;
    assert_eq!(obstacle.reason, format!("The job runs after job {two} (b), which was completed a moment ago."));
    database.execute("SELECT {schema}._release_step(1000, NULL, NULL, NULL)").await;
    gone(&database, child, ObstacleCode::Parents).await;
}
