//! Runners, and jobs that they cannot work.

use support::prelude::*;
use uniqueue_admin::{Severity, Thresholds};

use super::{Task, runner};
use crate::health::{find, gone, paste, seek};

#[support::test]
async fn a_runner_that_misses_heartbeats_is_late_and_then_dead(database: Database) {
    runner(&database, "fine", "default", 6).await;
    runner(&database, "slow", "default", 13).await;
    let late = find(&database, Thresholds::new(), "runner_late", Severity::Warning, "runner slow").await;
    assert!(late.seen.contains("should come every 5s"), "{late:?}");
    assert!(seek(&database, Thresholds::new(), "runner_late", "runner fine").await.is_none());

    database.execute("UPDATE {schema}.runner SET leased_until = now() - interval '2 min' WHERE name = 'slow'").await;
    find(&database, Thresholds::new(), "runner_dead", Severity::Notice, "runner slow").await;
    let id = database.client.insert(job("a")).await.unwrap().id();
    database.set_state(id, "running").await;
    let of_slow = "(SELECT id FROM {schema}.runner WHERE name = 'slow')";
    database.execute(&format!("UPDATE {{schema}}.job SET worker = {of_slow}, attempted_at = now()")).await;
    let dead = find(&database, Thresholds::new(), "runner_dead", Severity::Warning, "runner slow").await;
    assert!(dead.seen.contains("it still has 1 job running"), "{dead:?}");
    let stuck = find(&database, Thresholds::new(), "job_stuck", Severity::Warning, "queue default").await;
    assert!(stuck.seen.contains(&id.to_string()), "{stuck:?}");

    // The remedy: any runner takes them back.
    let real = Runner::new(database.client.clone()).queue("other", 1).worker(|_: RunningJob<Task>| async {});
    let real = real.start().await.unwrap();
    gone(&database, Thresholds::new(), "job_stuck", "").await;
    assert_eq!(database.client.job(id).await.unwrap().unwrap().crashes, 1);
    real.stop().await.unwrap();
}

#[support::test]
async fn jobs_that_kill_their_runners_are_told_by_kind(database: Database) {
    let any = Thresholds::new();
    let id = database.client.insert(job("a")).await.unwrap().id();
    database.execute("UPDATE {schema}.job SET crashes = 1").await;
    assert!(seek(&database, any.clone(), "job_suspect", "").await.is_none(), "it may be any of the runner's jobs");
    database.execute("UPDATE {schema}.job SET crashes = 2").await;
    for state in ["available", "running", "retryable"] {
        database.set_state(id, state).await;
        let told = find(&database, any.clone(), "job_suspect", Severity::Warning, "kind a").await;
        assert!(told.seen.contains(&format!("up to 2 in a row, such as {id}")), "{told:?}");
    }
    database.set_state(id, "discarded").await;
    find(&database, any.clone(), "job_suspect", Severity::Notice, "kind a").await;
    database.set_state(id, "completed").await;
    gone(&database, any.clone(), "job_suspect", "kind a").await;
}

#[support::test]
async fn jobs_whose_rows_cannot_be_read_are_named_until_they_are_deleted(database: Database) {
    let any = Thresholds::new();
    let inserted = database.client.insert_many((0..5).map(|_| job("task"))).await.unwrap();
    let [waiting, discarded] = [1, 3].map(|n| inserted[n].id());
    database.damage(waiting, "args").await;
    assert!(seek(&database, any.clone(), "job_unreadable", "").await.is_none(), "a runner may discard it at once");
    database.pass(Duration::from_secs(90)).await;
    let told = find(&database, any.clone(), "job_unreadable", Severity::Warning, "kind task").await;
    assert!(told.seen.contains(&format!("such as {waiting}: the job's row cannot be read: ")), "{told:?}");
    paste(&database, told.remedy.sql.as_deref().unwrap()).await;
    gone(&database, any.clone(), "job_unreadable", "").await;

    database.damage(discarded, "args").await;
    let real = Runner::new(database.client.clone()).queue("default", 9).worker(|_: RunningJob<Task>| async {});
    let real = real.start().await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'discarded'", 1).await;
    let told = find(&database, any.clone(), "job_unreadable", Severity::Notice, "kind task").await;
    assert!(told.seen.contains(&format!("such as {discarded}: the job's row cannot be read: ")), "{told:?}");
    real.stop().await.unwrap();
    paste(&database, told.remedy.sql.as_deref().unwrap()).await;
    gone(&database, any.clone(), "job_unreadable", "").await;
}

/// Only in a full run: the server needs a gigabyte of memory.
#[tokio::test]
async fn a_waiting_job_whose_text_exceeds_a_gigabyte_is_named() {
    if !soak(false, true) {
        return;
    }
    let database = Database::new().await;
    let id = database.client.insert(job("a")).await.unwrap().id();
    let update = "UPDATE {schema}.job SET args = jsonb_build_object('pad', repeat(E'\x01', 190000000)),
                scheduled_at = now() - interval '1 h'";
    database.execute(update).await;
    let named = find(&database, Thresholds::new(), "job_unreadable", Severity::Warning, "").await;
    assert!(named.seen.contains(&id.to_string()) && named.seen.contains("may exceed 1 GB"), "{named:?}");
}

#[support::test]
async fn a_job_that_runs_far_longer_than_its_kind_is_slow_where_the_kind_has_a_history(database: Database) {
    runner(&database, "fine", "default", 1).await;
    // Each kind has a job that has run for two minutes. The usual one took 2 s, up to 4 s.
    let slow = database.client.insert_many(["usual", "long", "new"].map(job)).await.unwrap();
    let done = database.client.insert_many((0..120).map(|n| job(["usual", "long"][n % 2]))).await.unwrap();
    database.client.insert_many((0..5).map(|_| job("new"))).await.unwrap();
    let completed = "UPDATE {schema}.job SET state = 'completed', attempt = 1, attempted_at = now() - interval '1 min',
            finalized_at = now() - interval '1 min' + CASE kind WHEN 'usual' THEN interval '2 s' ELSE interval '30 s' END
                * (1 + random())";
    database.execute(completed).await;
    assert_eq!(done.len(), 120);
    for inserted in &slow {
        database.set_state(inserted.id(), "running").await;
    }
    let run =
        "UPDATE {schema}.job SET worker = (SELECT id FROM {schema}.runner), attempted_at = now() - interval '2 min'
        WHERE state = 'running'";
    assert_eq!(database.execute(run).await, 3);
    let usual = find(&database, Thresholds::new(), "job_slow", Severity::Warning, "kind usual").await;
    assert!(usual.seen.contains("for up to 2m") && usual.seen.contains("took at most"), "{usual:?}");
    assert!(usual.seen.contains(&slow[0].id().to_string()), "{usual:?}");
    // Ten times its usual time is five minutes, and of the new kind five runs are known.
    assert!(seek(&database, Thresholds::new(), "job_slow", "kind long").await.is_none());
    assert!(seek(&database, Thresholds::new(), "job_slow", "kind new").await.is_none());
    let strict = Thresholds::new().slow_factor(2);
    find(&database, strict.clone(), "job_slow", Severity::Warning, "kind long").await;
    // A backlog hides nothing.
    database.client.insert_many((0..3_000).map(|_| job("usual"))).await.unwrap();
    find(&database, Thresholds::new(), "job_slow", Severity::Warning, "kind usual").await;
    // The remedy.
    paste(&database, usual.remedy.sql.as_deref().unwrap()).await;
    gone(&database, Thresholds::new(), "job_slow", "kind usual").await;
}
