//! Results that the database rejects.

use support::prelude::*;

/// A trigger of the application: jobs that it is `about` cannot end.
async fn refuse(database: &Database, about: &str, code: &str) {
    let refuse = format!("RAISE EXCEPTION 'too many notifications in the NOTIFY queue' USING ERRCODE = '{code}';");
    let about = format!("NEW.state IN ('completed', 'discarded') AND ({about})");
    database.trigger("BEFORE UPDATE", &about, &refuse).await;
}

const COMPLETED: &str = "SELECT count(*) FROM {schema}.job WHERE state = 'completed'";

#[tokio::test]
async fn a_result_that_the_database_refuses_holds_up_no_other_and_counts_when_it_is_allowed() {
    // A trigger's own error; a constraint, where an output that is refused is a failure, and the next run is recorded; and
    // where a trigger sends a notification and the queue of notifications is full, which is no fault of the output.
    for (code, output, has_failed) in
        [("P0001", None, false), ("23514", None, false), ("23514", Some(13), true), ("54000", Some(13), false)]
    {
        let database = Database::new().await;
        refuse(&database, "NEW.args->>'n' = '13'", code).await;
        let jobs = database.client.insert_many((0..500).map(|n| Task { n })).await.unwrap();
        let runner = Runner::new(database.client.clone())
            .queue("default", 500)
            .retry_policy(RetryPolicy::fixed(Duration::from_millis(300)))
            .promote_interval(Duration::from_millis(20));
        let work = move |_: RunningJob<Task>| async move { Outcome::Complete { output: output.map(Value::from) } };
        let runner = runner.worker(work).start().await.unwrap();
        database.until(COMPLETED, 499).await;
        database.drop_trigger().await;
        let row = database.until_state(jobs[13].id(), JobState::Completed).await;
        assert_eq!(!row.errors.is_empty(), has_failed, "{:?}", row.errors);
        runner.stop().await.unwrap();
    }
}

/// The application's rows may refer to jobs. Where these are not kept, that must not make a failure of their
/// completion.
#[support::test]
async fn a_completed_job_that_cannot_be_deleted_is_completed_and_kept(database: Database) {
    database.execute("CREATE TABLE {schema}.mine (job uuid REFERENCES {schema}.job)").await;
    let jobs = database.client.insert_many((0..100).map(|n| Task { n })).await.unwrap();
    database.execute(&format!("INSERT INTO {{schema}}.mine VALUES ('{}')", jobs[13].id())).await;
    let mut events = database.client.events();
    let retention = Retention::default().completed(Duration::ZERO);
    let runner = database.runner().queue("default", 100).retention(retention);
    let runner = runner.prune_interval(Duration::from_millis(20)).worker(at_once).start().await.unwrap();
    let row = database.until_state(jobs[13].id(), JobState::Completed).await;
    assert_eq!(row.errors.len(), 0);
    database.execute("DELETE FROM {schema}.mine").await;
    database.until("SELECT count(*) FROM {schema}.job", 0).await;
    runner.stop().await.unwrap();
    let mut completed = 0;
    while let Ok(Some(event)) = timeout(Duration::ZERO, events.recv()).await {
        completed += usize::from(event.happened == Happened::Completed);
    }
    assert_eq!(completed, 100);
}

/// A runner whose jobs end all together, when they may: many that the database refuses, and then some that it would
/// take.
async fn many_and_then_some(database: &Database, gate: &'static Gate) -> RunnerHandle {
    refuse(database, "(NEW.args->>'n')::integer < 600", "P0001").await;
    let work = move |_: RunningJob<Task>| gate.pass();
    database.client.insert_many((0..620).map(|n| Task { n })).await.unwrap();
    let runner = Runner::new(database.client.clone()).queue("default", 620).lease(Duration::from_secs(2)).worker(work);
    let runner = runner.start().await.unwrap();
    gate.begun(620).await;
    gate.open(620);
    runner
}

#[support::test]
async fn hundreds_of_refused_results_hold_up_those_behind_them_for_moments_only(database: Database) {
    static GATE: Gate = Gate::closed();
    let runner = many_and_then_some(&database, &GATE).await;
    database.until(COMPLETED, 20).await;
    database.drop_trigger().await;
    runner.stop().await.unwrap();
}

#[support::test]
async fn a_stop_records_what_comes_behind_hundreds_of_refused_results(database: Database) {
    static GATE: Gate = Gate::closed();
    let runner = many_and_then_some(&database, &GATE).await;
    let stopping = runner.stop_within(Duration::from_secs(1));
    timeout(WAIT, stopping).await.expect("the stop ends").unwrap();
    assert_eq!(database.number(COMPLETED).await, 20);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever_for_results_that_the_database_refuses() {
    for about in ["NEW.args->>'n' = '13'", "true"] {
        let database = Database::new().await;
        refuse(&database, about, "P0001").await;
        database.client.insert_many((0..500).map(|n| Task { n })).await.unwrap();
        let (work, runs) = telling(|_| ());
        let runner = Runner::new(database.client.clone()).queue("default", 500).lease(Duration::from_secs(2));
        let runner = runner.stop_timeout(Duration::from_secs(1)).worker(work).start().await.unwrap();
        eventually!(runs.len() >= 500);
        timeout(WAIT, runner.stop()).await.expect("the stop ends").unwrap();
        let left = database.number("SELECT count(*) FROM {schema}.job WHERE state = 'running'").await;
        assert_eq!(left, if about == "true" { 500 } else { 1 });
    }
}

#[support::test]
async fn a_runner_whose_results_are_not_recorded_fetches_no_more_until_they_are(database: Database) {
    const JOBS: u32 = 45_000;
    // Twenty thousand that are not recorded, and what was on its way by then.
    const MOST: usize = 30_000;
    refuse(&database, "true", "P0001").await;
    for _ in 0..9 {
        database.client.insert_many((0..JOBS / 9).map(|n| Task { n })).await.unwrap();
    }
    let (work, runs) = telling(|_| ());
    database.start(database.runner().queue("default", 2_000).worker(work)).await;
    let (mut seen, mut seen_at) = (0, Instant::now());
    while seen == 0 || seen_at.elapsed() < Duration::from_secs(2) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = runs.len();
        if now > seen {
            (seen, seen_at) = (now, Instant::now());
        }
        assert!(seen_at.elapsed() < WAIT, "nothing runs");
    }
    assert!((20_000..MOST).contains(&seen), "{seen}");
    database.drop_trigger().await;
    eventually!(database.number(COMPLETED).await >= i64::from(JOBS), "{} jobs ran", runs.len());
}
