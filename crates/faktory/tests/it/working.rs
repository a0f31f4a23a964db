//! Failures, retries, reservations, and results that come late.

use test_support::prelude::*;

use crate::support::{Server, job, with};

/// Makes waiting jobs due.
const DUE: &str =
    "UPDATE {schema}.job SET scheduled_at = now() - interval '1 s' WHERE state IN ('retryable', 'scheduled')";

#[test_support::test]
async fn a_failed_job_waits_and_comes_back_with_its_failure(server: Server) {
    let mut worker = server.worker("w").await;
    worker.push(with(with(job("12345678", "t"), "backtrace", 2), "retry", 2)).await;
    worker.fetch("default").await;
    assert_eq!(worker.fail("12345678").await, "OK");
    let row = server.job("t").await;
    let waits = (row.scheduled_at - row.errors[0].at).whole_seconds();
    assert!(row.state == JobState::Retryable && (14..=45).contains(&waits), "{waits}");
    assert_eq!(server.database.execute(DUE).await, 1);
    let again = worker.fetch("default").await;
    let failure = &again["failure"];
    assert_eq!((&failure["message"], &failure["errtype"]), (&json!("no luck"), &json!("Oops")));
    assert_eq!((&failure["retry_count"], &failure["remaining"]), (&json!(0), &json!(2)));
    assert_eq!(failure["backtrace"], json!(["a", "b"]));
    worker.fail("12345678").await;
    server.database.execute(DUE).await;
    worker.fetch("default").await;
    worker.fail("12345678").await;
    assert_eq!(server.job("t").await.state, JobState::Discarded, "two retries are three attempts");
    assert_eq!(worker.fail("12345678").await, "-ERR Job not found 12345678");
}

#[test_support::test]
async fn a_job_that_is_locked_holds_up_no_other_ack(server: Server) {
    let mut worker = server.worker("w").await;
    for jid in ["job-0001", "job-0002", "job-0003", "job-0004"] {
        worker.push(job(jid, jid)).await;
        worker.fetch("default").await;
    }
    let mut locking = server.database.pool().begin().await.unwrap();
    // As many as there are calls at once.
    let lock = server.database.sql("SELECT FROM {schema}.job WHERE kind IN ('job-0001', 'job-0002') FOR UPDATE");
    sqlx::query(lock).execute(&mut *locking).await.unwrap();
    let mut late = [server.worker("w").await, server.worker("w").await];
    for (worker, jid) in late.iter_mut().zip(["job-0001", "job-0002"]) {
        worker.write(&format!("ACK {}", json!({ "jid": jid }))).await;
    }
    for jid in ["job-0003", "job-0004"] {
        assert_eq!(worker.ack(jid).await, "OK");
    }
    assert_eq!(server.job("job-0001").await.state, JobState::Running);
    locking.rollback().await.unwrap();
    for mut worker in late {
        assert_eq!(worker.read().await, "OK");
    }
}

#[test_support::test]
async fn one_call_carries_the_results_of_all_locked_jobs(server: Server) {
    let mut workers = Vec::new();
    for number in 0..12 {
        let jid = format!("job-{number:04}");
        let mut worker = server.worker("w").await;
        worker.push(job(&jid, "t")).await;
        worker.fetch("default").await;
        workers.push((worker, jid));
    }
    let mut locking = server.database.pool().begin().await.unwrap();
    sqlx::query(server.database.sql("SELECT FROM {schema}.job FOR UPDATE")).execute(&mut *locking).await.unwrap();
    for (worker, jid) in &mut workers {
        worker.write(&format!("ACK {}", json!({ "jid": jid }))).await;
    }
    let calls = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
        AND query LIKE '%finish_jobs%' AND pid <> pg_backend_pid()";
    let (mut seen, mut most) = (0, 0);
    while seen < 20 {
        let at_once = server.database.number(calls).await;
        seen += at_once.min(1);
        most = most.max(at_once);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(most <= 3, "{most} calls at once");
    locking.rollback().await.unwrap();
    for (worker, _) in &mut workers {
        assert_eq!(worker.read().await, "OK");
    }
}

#[test_support::test]
async fn each_ack_of_a_jid_that_several_jobs_have_ends_a_job_of_its_own_worker(server: Server) {
    let (mut worker, mut other) = (server.worker("w").await, server.worker("v").await);
    for _ in 0..3 {
        worker.push(job("job-same", "t")).await;
    }
    worker.fetch("default").await;
    worker.fetch("default").await;
    other.fetch("default").await;
    let running = "SELECT count(*) FROM {schema}.job WHERE state = 'running'";
    for left in [2, 1] {
        assert_eq!(worker.ack("job-same").await, "OK");
        assert_eq!(server.database.number(running).await, left);
    }
    assert_eq!(other.ack("job-same").await, "OK");
    assert_eq!(server.database.number(running).await, 0);
}

#[test_support::test]
async fn without_retries_a_failed_job_is_gone_or_dead(server: Server) {
    let mut worker = server.worker("w").await;
    for (jid, kind, retry, state) in
        [("job-gone", "gone", 0, JobState::Cancelled), ("job-dead", "dead", -1, JobState::Discarded)]
    {
        worker.push(with(job(jid, kind), "retry", retry)).await;
        assert_eq!(worker.fetch("default").await["retry"], json!(retry));
        assert_eq!(worker.fail(jid).await, "OK");
        let row = server.job(kind).await;
        assert_eq!((row.state, row.errors[0].error.as_str()), (state, "no luck"));
    }
}

#[test_support::test]
async fn a_scheduled_job_starts_at_its_time(server: Server) {
    let mut worker = server.worker("w").await;
    worker.push(with(job("12345678", "t"), "at", "2100-01-01T00:00:00.5+02:00")).await;
    assert_eq!(server.job("t").await.state, JobState::Scheduled);
    assert_eq!(worker.send("FETCH default").await, "nil");
    server.database.execute(DUE).await;
    assert_eq!(worker.fetch("default").await["jid"], "12345678");
    worker.push(with(job("job-past", "past"), "at", "2020-01-01T00:00:00Z")).await;
    assert_eq!(worker.fetch("default").await["jid"], "job-past");
}

#[test_support::test]
async fn a_job_is_reserved_for_as_long_as_it_says_and_taken_back_after_it(server: Server) {
    let mut worker = server.worker("w").await;
    worker.push(with(job("12345678", "t"), "reserve_for", 60)).await;
    worker.push(job("job-long", "long")).await;
    worker.fetch("default").await;
    worker.fetch("default").await;
    let left = |kind: &str| {
        format!("SELECT extract(epoch FROM reserved_until - now())::bigint FROM {{schema}}.job WHERE kind = '{kind}'")
    };
    let (short, long) = (server.database.number(&left("t")).await, server.database.number(&left("long")).await);
    assert!((50..=60).contains(&short) && (1_790..=1_800).contains(&long), "{short} {long}");
    let over = "UPDATE {schema}.job SET reserved_until = now() - interval '1 s' WHERE kind = 't'";
    server.database.execute(over).await;
    // The server does the maintenance.
    eventually!(let row = server.job("t").await; row.state != JobState::Running, "{row:?}");
    assert_eq!(worker.ack("12345678").await, "OK");
    assert_ne!(server.job("t").await.state, JobState::Completed, "the result came too late");
}

#[test_support::test]
async fn a_result_counts_over_any_connection_of_its_worker_and_over_no_other(server: Server) {
    let (mut one, mut two, mut other) = (server.worker("w").await, server.worker("w").await, server.worker("x").await);
    one.push(job("12345678", "t")).await;
    one.fetch("default").await;
    assert_eq!(other.ack("12345678").await, "OK");
    assert_eq!(other.fail("12345678").await, "-ERR Job not found 12345678");
    assert_eq!(server.job("t").await.state, JobState::Running);
    drop(one);
    assert_eq!(two.ack("12345678").await, "OK");
    assert_eq!(server.job("t").await.state, JobState::Completed);
}

#[test_support::test]
async fn a_result_counts_after_the_server_was_started_anew(server: Server) {
    let mut worker = server.worker("w").await;
    for (jid, kind) in [("job-one-1", "one"), ("job-two-2", "two")] {
        worker.push(job(jid, kind)).await;
        worker.fetch("default").await;
    }
    let id = server.database.client.insert(test_support::job("native")).await.unwrap().id().to_string();
    worker.fetch("default").await;
    let server = Server::on(server.stop().await, |faktory| faktory).await;
    let mut worker = server.worker("w").await;
    assert_eq!(worker.ack("job-one-1").await, "OK");
    assert_eq!(worker.fail("job-two-2").await, "OK");
    assert_eq!(worker.ack(&id).await, "OK");
    let states = [server.job("one").await.state, server.job("two").await.state, server.job("native").await.state];
    assert_eq!(states, [JobState::Completed, JobState::Retryable, JobState::Completed]);
    assert_eq!(server.job("two").await.errors.len(), 1);
}

#[test_support::test]
async fn a_client_that_leaves_while_it_waits_costs_no_job(server: Server) {
    for round in 0..20 {
        let (mut gone, mut stays) = (server.worker("w").await, server.worker("w").await);
        gone.write("FETCH default").await;
        drop(gone);
        let jid = format!("job-{round:04}");
        stays.push(job(&jid, "t")).await;
        assert_eq!(stays.fetch("default").await["jid"], jid);
        stays.ack(&jid).await;
    }
}

#[test_support::test]
async fn a_worker_that_left_is_no_longer_listed(server: Server) {
    let mut worker = server.worker("w").await;
    worker.push(job("12345678", "t")).await;
    worker.fetch("default").await;
    let listed = "SELECT count(*) FROM {schema}.runner WHERE name = 'w'";
    assert_eq!(server.database.number(listed).await, 1);
    worker.ack("12345678").await;
    worker.send("END").await;
    server.database.until(listed, 0).await;
}

#[derive(serde::Deserialize, serde::Serialize, uniqueue::Job)]
#[job(kind = "known", queue = "special", max_attempts = 3, unique(args))]
struct Known {}

#[derive(serde::Deserialize, serde::Serialize, uniqueue::Job)]
#[job(kind = "exact", unique(kind, on_conflict = "reject"))]
struct Exact {}

#[tokio::test]
async fn jobs_that_a_registered_kind_rejects_refuse_no_other_job_of_the_command() {
    let database = test_support::Database::with_connections(8).await;
    database.client.register::<Exact>().await.unwrap();
    let server = Server::on(database, |faktory| faktory).await;
    let mut client = server.client().await;
    let jobs =
        json!([job("job-0001", "exact"), job("job-0002", "a"), job("job-0003", "exact"), job("job-0004", "exact")]);
    let refused = client.send(&format!("PUSHB {jobs}")).await;
    let refused: serde_json::Value = serde_json::from_str(&refused).unwrap();
    let problem = "NOTUNIQUE Job not unique";
    assert_eq!(refused, json!({"job-0003": problem, "job-0004": problem}));
    assert_eq!(server.database.number("SELECT count(*) FROM {schema}.job").await, 2);
}

#[tokio::test]
async fn jobs_of_a_registered_kind_get_what_the_push_leaves_out() {
    let database = test_support::Database::with_connections(8).await;
    database.client.register::<Known>().await.unwrap();
    let server = Server::on(database, |faktory| faktory).await;
    let mut client = server.client().await;
    assert_eq!(client.push(job("12345678", "known")).await, "OK");
    let row = server.job("known").await;
    assert_eq!((row.queue.as_str(), row.max_attempts), ("special", 3));
    assert_eq!(client.push(job("12345679", "known")).await, "-NOTUNIQUE Job not unique");
    let bypass = with(job("12345670", "known"), "custom", json!({"unique_for": null}));
    assert_eq!(client.push(bypass).await, "OK");
}
