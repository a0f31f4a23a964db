//! The verbs of remote workers in Rust.

use uniqueue_remote::{FetchedJob, JobResult, Remote, WakeUp, WakeUps};

use super::run_out;
use support::prelude::*;

#[support::test]
async fn a_job_is_fetched_and_completed_once(database: Database, client: &Client) {
    let sent = NewJob::new("send", &json!({"to": 7})).queue("mail").meta("trace", "x").priority(3);
    let id = client.insert(sent).await.unwrap().id();
    client.insert(job("other").queue("mail")).await.unwrap();
    let fetch = Remote::new(client).fetch_jobs(["mail", "default"], "w").count(10).kinds(["send"]).reserve(MINUTE);
    let [fetched] = fetch.await.unwrap().try_into().unwrap();
    assert_eq!(
        (fetched.run.id, fetched.run.run, fetched.kind.as_str(), fetched.queue.as_str()),
        (id, 1, "send", "mail")
    );
    assert_eq!((fetched.args.get(), &fetched.meta["trace"]), (r#"{"to": 7}"#, &json!("x")));
    assert_eq!((fetched.attempt, fetched.max_attempts, fetched.priority, fetched.crashes), (1, 25, 3, 0));
    assert!(
        fetched.reserved_until > Some(fetched.created_at) && fetched.errors.is_empty() && fetched.timeout.is_none()
    );
    let done = || JobResult::complete(fetched.run).output(json!("sent")).progress(json!(100));
    let [first] = Remote::new(client).finish_jobs([done()]).await.unwrap().try_into().unwrap();
    assert!(first.counted && first.state == Some(JobState::Completed) && first.run == fetched.run);
    let [again] = Remote::new(client).finish_jobs([done()]).await.unwrap().try_into().unwrap();
    assert!(!again.counted);
    let row = client.job(id).await.unwrap().unwrap();
    assert_eq!((row.output, row.progress), (Some(json!("sent")), Some(json!(100))));
}

#[support::test]
async fn each_result_ends_its_run_as_it_says(database: Database, client: &Client) {
    client.insert_many((0..6).map(|_| job("j").max_attempts(2))).await.unwrap();
    let fetched = Remote::new(client).fetch_jobs(["default"], "w").count(6).await.unwrap();
    let runs: Vec<_> = fetched.iter().map(|job| job.run).collect();
    let error = || JobError::new("no \0 luck").code("unlucky").error_type("Luck").details(json!([1]));
    let results = [
        JobResult::fail(runs[0], error().retry_after(MINUTE)),
        JobResult::fail(runs[1], error().permanent()),
        JobResult::snooze(runs[2], MINUTE),
        JobResult::give_back(runs[3]),
        JobResult::cancel(runs[4], error()),
        JobResult::discard(runs[5], error()),
    ];
    let states: Vec<_> =
        Remote::new(client).finish_jobs(results).await.unwrap().iter().map(|end| end.state.unwrap()).collect();
    use JobState::{Available, Cancelled, Discarded, Retryable, Scheduled};
    assert_eq!(states, [Retryable, Discarded, Scheduled, Available, Cancelled, Discarded]);
    for place in [0, 1, 4, 5] {
        let row = client.job(runs[place].id).await.unwrap().unwrap();
        let stored = &row.errors[0];
        assert_eq!((stored.error.as_str(), stored.code.as_deref()), ("no \u{fffd} luck", Some("unlucky")), "{place}");
        assert_eq!((stored.error_type.as_deref(), &stored.details), (Some("Luck"), &Some(json!([1]))), "{place}");
    }
    let waits = client.job(runs[0].id).await.unwrap().unwrap();
    assert!(waits.scheduled_at > waits.attempted_at.unwrap() + Duration::from_secs(50));
}

#[support::test]
async fn a_job_whose_reservation_ran_out_is_taken_back_and_its_result_does_not_count(database: Database) {
    let client = &database.client;
    client.insert(job("j")).await.unwrap();
    let [fetched] = Remote::new(client).fetch_jobs(["default"], "w").await.unwrap().try_into().unwrap();
    let [held] = Remote::new(client).extend_jobs([fetched.run], MINUTE * 60).await.unwrap().try_into().unwrap();
    assert!(held.counted && held.reserved_until > fetched.reserved_until);
    run_out(&database).await;
    assert_eq!(Remote::new(client).maintain("w").await.unwrap().rescued, 1);
    let [lost] = Remote::new(client).extend_jobs([fetched.run], MINUTE).await.unwrap().try_into().unwrap();
    assert!(!lost.counted && lost.reserved_until.is_none());
    let [late] = Remote::new(client).finish_jobs([JobResult::complete(fetched.run)]).await.unwrap().try_into().unwrap();
    assert!(!late.counted && late.state != Some(JobState::Completed));
    assert_eq!(Remote::new(client).stop_worker("w").await.unwrap(), 1);
}

#[support::test]
async fn a_result_in_a_transaction_ends_with_it(database: Database, client: &Client) {
    client.insert(job("j")).await.unwrap();
    let [fetched] = Remote::new(client).fetch_jobs(["default"], "w").await.unwrap().try_into().unwrap();
    let mut tx = client.pool().begin().await.unwrap();
    let finished = Remote::new(client).finish_jobs([JobResult::complete(fetched.run)]).tx(&mut tx).await.unwrap();
    assert!(finished[0].counted);
    tx.rollback().await.unwrap();
    assert_eq!(client.job(fetched.run.id).await.unwrap().unwrap().state, JobState::Running);
}

#[support::test]
async fn an_insert_wakes_a_worker_that_found_nothing(database: Database, client: &Client) {
    let mut wake_ups = WakeUps::new(client);
    assert_eq!(timeout(WAIT, wake_ups.next()).await.unwrap(), WakeUp::Connected);
    assert!(Remote::new(client).fetch_jobs(["default"], "w").listens().await.unwrap().is_empty());
    let id = client.insert(job("j")).await.unwrap().id();
    assert_eq!(timeout(WAIT, wake_ups.next()).await.unwrap(), WakeUp::Jobs { queue: "default".to_owned() });
    let [fetched] = Remote::new(client).fetch_jobs(["default"], "w").listens().await.unwrap().try_into().unwrap();
    client.cancel(id).await.unwrap();
    let taken = WakeUp::TakenAway { worker: fetched.worker.unwrap().to_string() };
    assert_eq!(timeout(WAIT, wake_ups.next()).await.unwrap(), taken);
}

#[support::test]
async fn each_job_can_be_reserved_for_its_own_time_in_the_transaction_of_the_fetch(database: Database) {
    let client = &database.client;
    let lengths = [None, Some(30), Some(3_600), Some(30)];
    client
        .insert_many(lengths.map(|seconds| match seconds {
            Some(seconds) => job("j").meta("seconds", seconds),
            None => job("j"),
        }))
        .await
        .unwrap();
    let own = |job: &FetchedJob| Some(Duration::from_secs(job.meta.get("seconds")?.as_u64()?));
    let fetch = || Remote::new(client).fetch_jobs(["default"], "w").count(4).reserve(MINUTE).reserve_each(own);
    // The transaction of the caller ends the reservations as well.
    let mut tx = client.pool().begin().await.unwrap();
    assert_eq!(fetch().tx(&mut tx).await.unwrap().len(), 4);
    tx.rollback().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE state = 'running'").await, 0);
    let fetching = statements_of(async { fetch().await.unwrap() });
    let (jobs, statements) = fetching.await;
    assert_eq!((statements.len(), statements[3].as_str()), (4, "COMMIT"), "{statements:?}");
    assert_eq!(statements.iter().filter(|text| text.contains("extend_jobs")).count(), 2, "one for each time");
    for (job, seconds) in jobs.iter().zip(lengths) {
        let row = client.job(job.run.id).await.unwrap().unwrap();
        let stored = format!(
            "SELECT extract(epoch FROM reserved_until - attempted_at)::bigint FROM {{schema}}.job WHERE id = '{}'",
            row.id
        );
        assert_eq!(database.number(&stored).await, seconds.unwrap_or(60), "{seconds:?}");
        let left = (job.reserved_until.unwrap() - time::OffsetDateTime::now_utc()).whole_seconds();
        assert!((left - seconds.unwrap_or(60)).abs() <= 15, "{left}");
    }
}
