//! A job that a remote worker fetched comes back by itself, as a suspect, and a late result does not count.

use super::{Fetched, Remote, bystander, run_out};
use support::prelude::*;

#[support::test]
async fn a_job_comes_back_after_its_reservation_as_a_suspect_and_a_late_result_is_dropped(database: Database) {
    let hangs = Remote::new(&database, "hangs").reserve("1 second");
    let other = Remote::new(&database, "other");
    database.client.insert(job("j")).await.unwrap();
    let first = hangs.fetch_one().await;
    assert_eq!(other.maintain().await.1, 0, "it is reserved");
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    assert_eq!(other.maintain().await.1, 1);
    let row = database.row(first.id.into()).await;
    assert_eq!((row.state, row.crashes, row.attempt), (JobState::Retryable, 1, 0));
    assert_eq!(row.errors[0].error, "rescued: the worker died, or did not extend its reservation");
    assert_eq!(hangs.complete(&first).await, (false, "retryable".to_owned()));
    database.execute("UPDATE {schema}.job SET scheduled_at = now()").await;
    assert_eq!(other.maintain().await.0, 1);
    let second = other.fetch_one().await;
    let seen = (second.run, second.attempt, second.crashes);
    assert_eq!(seen, (first.run + 1, 1, 0), "the late result says that it lives");
    assert_eq!(hangs.complete(&first).await, (false, "running".to_owned()));
    assert_eq!(other.complete(&second).await, (true, "completed".to_owned()));
}

#[support::test]
async fn a_worker_that_stood_still_and_speaks_again_did_not_crash(database: Database) {
    let worker = Remote::new(&database, "w");
    let other = Remote::new(&database, "other");
    database.client.insert_many((0..3).map(|_| job("j"))).await.unwrap();
    let jobs = worker.fetch(3).await;
    run_out(&database).await;
    assert_eq!(other.maintain().await.1, 3);
    let crashes = "SELECT string_agg(crashes || ' ' || (errors -> 0 ->> 'error' LIKE 'lost: %'), ', ' ORDER BY id) FROM {schema}.job";
    assert_eq!(database.text(crashes).await, "1 false, 1 false, 1 false");
    // By a heartbeat, by a late result, and once only.
    for _ in 0..2 {
        assert!(!worker.extend(&jobs[..1]).await[0].held);
        assert_eq!(worker.complete(&jobs[1]).await, (false, "retryable".to_owned()));
    }
    assert_eq!(database.text(crashes).await, "0 true, 0 true, 1 false");
    // The third one runs again, and crashes there as well: that crash is not the late worker's.
    database.execute("UPDATE {schema}.job SET scheduled_at = now()").await;
    other.maintain().await;
    let again: Vec<_> = other.fetch(3).await;
    assert_eq!(again.len(), 3);
    run_out(&database).await;
    assert_eq!(other.maintain().await.1, 3);
    assert!(!worker.extend(&jobs[2..]).await[0].held);
    assert_eq!(database.number("SELECT max(crashes)::bigint FROM {schema}.job").await, 2);
}

#[support::test]
async fn a_result_that_comes_after_the_reservation_but_before_the_rescue_counts(database: Database) {
    let worker = Remote::new(&database, "w");
    database.client.insert(job("j")).await.unwrap();
    let fetched = worker.fetch_one().await;
    run_out(&database).await;
    assert_eq!(worker.complete(&fetched).await, (true, "completed".to_owned()));
    assert_eq!(worker.maintain().await.1, 0);
}

#[support::test]
async fn extending_keeps_a_job_and_says_which_are_lost_and_why(database: Database) {
    let worker = Remote::new(&database, "w");
    database.client.insert_many((0..5).map(|_| job("j"))).await.unwrap();
    let jobs = worker.fetch(5).await;
    run_out(&database).await;
    let stale = Fetched { run: 9, ..jobs[4].clone() };
    database.client.cancel(JobId::from(jobs[1].id)).await.unwrap();
    database.client.cancel(JobId::from(jobs[2].id)).await.unwrap();
    database.client.delete(JobId::from(jobs[2].id)).await.unwrap();
    worker.complete(&jobs[3]).await;
    let given = [jobs[0].clone(), jobs[1].clone(), jobs[2].clone(), jobs[3].clone(), stale, jobs[4].clone()];
    let said: Vec<_> = worker.extend(&given).await.into_iter().map(|held| (held.held, held.state)).collect();
    let states = [
        (true, Some("running")),
        (false, Some("cancelled")),
        (false, None),
        (false, Some("completed")),
        (false, Some("running")),
        (true, Some("running")),
    ];
    assert_eq!(said, states.map(|(held, state)| (held, state.map(str::to_owned))));
    assert_eq!(worker.maintain().await.1, 0, "both are reserved again");
    let reserved =
        "SELECT count(*) FROM {schema}.job WHERE state = 'running' AND reserved_until > now() + interval '50 s'";
    assert_eq!(database.number(reserved).await, 2);
}

#[support::test]
async fn extending_waits_for_no_lock_and_stores_progress(database: Database) {
    let worker = Remote::new(&database, "w");
    database.client.insert_many((0..2).map(|_| job("j"))).await.unwrap();
    let jobs = worker.fetch(2).await;
    let locking = database.begin(&format!("SELECT FROM {{schema}}.job WHERE id = '{}' FOR UPDATE", jobs[0].id)).await;
    let extend =
        worker.sql("SELECT e.held FROM {schema}.extend_jobs($1, $2, '5 minutes', ARRAY['1', '{\"done\": 2}']) AS e");
    let held: Vec<bool> = sqlx::query_scalar(extend)
        .bind(jobs.iter().map(|job| job.id).collect::<Vec<_>>())
        .bind(jobs.iter().map(|job| job.run).collect::<Vec<_>>())
        .fetch_all(&worker.pool)
        .await
        .unwrap();
    assert_eq!(held, [true, true]);
    locking.rollback().await.unwrap();
    let said = "SELECT string_agg(concat_ws(' ', progress, reserved_until > now() + interval '4 minutes'), ', ' ORDER BY id) FROM {schema}.job";
    assert_eq!(database.text(said).await, "f, {\"done\": 2} t");
}

#[support::test]
async fn a_job_that_lets_its_reservation_run_out_again_and_again_is_discarded_at_the_third_time(database: Database) {
    let worker = Remote::new(&database, "w");
    let poison = database.client.insert(job("poison")).await.unwrap().id();
    for crash in 1..=3 {
        database.client.insert(job("fine")).await.unwrap();
        database.execute("UPDATE {schema}.job SET scheduled_at = now() WHERE kind = 'poison'").await;
        worker.maintain().await;
        let mut jobs = worker.fetch(5).await;
        if crash == 3 {
            assert_eq!(jobs.len(), 1, "the other job, while the suspect waits to be alone");
            worker.complete(&jobs[0]).await;
            jobs = worker.fetch(5).await;
            assert_eq!(jobs.len(), 1, "alone");
            database.client.insert(job("fine")).await.unwrap();
            assert!(worker.fetch(5).await.is_empty(), "nothing beside it at first");
        }
        for job in jobs.iter().filter(|job| job.kind == "fine") {
            assert!(worker.complete(job).await.0);
        }
        assert!(jobs.iter().any(|job| job.kind == "poison"), "{crash}: {jobs:?}");
        run_out(&database).await;
        assert_eq!(worker.maintain().await.1, 1);
    }
    let row = database.row(poison).await;
    assert_eq!((row.state, row.crashes), (JobState::Discarded, 3));
    let why = "discarded: its runner died 3 times in a row while it had the job";
    assert!(row.errors[2].error.ends_with(why), "{row:?}");
    assert_eq!(worker.fetch(5).await.len(), 1, "the other jobs go on");
}

#[support::test]
async fn a_runner_rescues_the_jobs_of_remote_workers(database: Database) {
    database.client.insert(job("j")).await.unwrap();
    let worker = Remote::new(&database, "w").reserve("1 second");
    let fetched = worker.fetch_one().await;
    database.start(bystander(&database)).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state <> 'running'", 1).await;
    assert!(!worker.complete(&fetched).await.0);
}

#[support::test]
async fn two_processes_of_one_name_do_not_share_results(database: Database) {
    database.client.insert_many((0..10).map(|_| job("j"))).await.unwrap();
    let (first, second) = (Remote::new(&database, "same"), Remote::new(&database, "same"));
    let (of_first, of_second) = (first.fetch(5).await, second.fetch(5).await);
    assert_eq!((of_first.len(), of_second.len()), (5, 5));
    assert_eq!(of_first[0].worker_id, of_second[0].worker_id);
    // The first one dies. What the second one says keeps only its own jobs.
    run_out(&database).await;
    assert!(second.extend(&of_second).await.iter().all(|held| held.held));
    assert_eq!(second.maintain().await.1, 5);
    assert!(second.end(&of_second, "complete_jobs", "").await.iter().all(|ended| ended.counted));
    assert!(first.end(&of_first, "complete_jobs", "").await.iter().all(|ended| !ended.counted));
}

#[support::test]
async fn a_busy_worker_drains_for_a_suspect_and_does_not_wait_for_long(database: Database) {
    let worker = Remote::new(&database, "w");
    database.client.insert_many((0..9).map(|_| job("j"))).await.unwrap();
    let busy = worker.fetch(1).await.remove(0);
    let suspect = "UPDATE {schema}.job SET crashes = 2
        WHERE state = 'available' AND id = (SELECT id FROM {schema}.job ORDER BY id DESC LIMIT 1)";
    database.execute(suspect).await;
    // The fetch that sees it takes other jobs still.
    assert_eq!(worker.fetch(1).await.len(), 1);
    assert!(worker.fetch(1).await.is_empty(), "it drains");
    // After two seconds it does not wait for the long job.
    let pass =
        "UPDATE {schema}.runner SET memory = memory || jsonb_build_object('drains_until', now() - interval '1 s')";
    database.execute(pass).await;
    let alone = worker.fetch(5).await;
    assert_eq!(alone.iter().map(|job| job.crashes).collect::<Vec<_>>(), [2]);
    assert!(worker.fetch(5).await.is_empty());
    assert!(worker.complete(&alone[0]).await.0);
    assert_eq!(worker.fetch(9).await.len(), 6);
    assert!(worker.complete(&busy).await.0);
}

#[support::test]
async fn a_reservation_ends_although_the_clock_went_back(database: Database) {
    database.client.insert(job("j")).await.unwrap();
    let worker = Remote::new(&database, "w");
    worker.fetch_one().await;
    // The clock was an hour ahead.
    database.execute("UPDATE {schema}.job SET reserved_until = reserved_until + interval '1 hour'").await;
    let ahead = "UPDATE {schema}.runner SET leased_until = leased_until + interval '1 hour', heartbeat_at = heartbeat_at + interval '1 hour'";
    database.execute(ahead).await;
    Remote::new(&database, "other").maintain().await;
    let left = "SELECT extract(epoch FROM leased_until - now())::bigint FROM {schema}.runner";
    assert!(database.number(left).await <= 120);
    database.execute("UPDATE {schema}.runner SET leased_until = now()").await;
    assert_eq!(Remote::new(&database, "other").maintain().await.1, 1);
}

#[support::test]
async fn a_worker_that_listens_is_woken_by_an_insert_between_its_fetches_or_after_them(database: Database) {
    let worker = Remote { listens: true, ..Remote::new(&database, "w") };
    let mut listener = database.listen(&["job"]).await;
    for _ in 0..3 {
        assert!(worker.fetch(1).await.is_empty());
        assert!(worker.fetch(1).await.is_empty());
        database.client.insert(job("j")).await.unwrap();
        let heard = timeout(WAIT, listener.recv()).await.unwrap().unwrap();
        assert_eq!(heard.payload(), "default");
        let fetched = worker.fetch_one().await;
        assert_eq!(database.number("SELECT count(*) FROM {schema}.runner WHERE idle").await, 0);
        worker.complete(&fetched).await;
    }
    // A job that comes between the two fetches is found by the second.
    assert!(worker.fetch(1).await.is_empty());
    database.client.insert(job("j")).await.unwrap();
    assert_eq!(worker.fetch(1).await.len(), 1);
}

#[support::test]
async fn a_worker_that_does_not_listen_costs_inserts_no_notification(database: Database) {
    let worker = Remote::new(&database, "w");
    assert!(worker.fetch(1).await.is_empty());
    assert_eq!(database.number("SELECT count(*) FROM {schema}.runner WHERE idle").await, 0);
    // It listened before.
    let listening = Remote { listens: true, ..worker.clone() };
    assert!(listening.fetch(1).await.is_empty());
    assert_eq!(database.number("SELECT count(*) FROM {schema}.runner WHERE idle").await, 1);
    assert!(worker.fetch(1).await.is_empty());
    assert_eq!(database.number("SELECT count(*) FROM {schema}.runner WHERE idle").await, 0);
}

#[support::test]
async fn a_worker_is_told_by_its_id_when_a_running_job_is_cancelled(database: Database) {
    let worker = Remote::new(&database, "w");
    database.client.insert(job("j")).await.unwrap();
    let fetched = worker.fetch_one().await;
    let mut listener = database.listen(&["control"]).await;
    database.client.cancel(JobId::from(fetched.id)).await.unwrap();
    let heard = timeout(WAIT, listener.recv()).await.unwrap().unwrap();
    assert_eq!(heard.payload(), fetched.worker_id.to_string());
    let held = worker.extend(&[fetched]).await.remove(0);
    assert_eq!((held.held, held.state.as_deref()), (false, Some("cancelled")));
}
