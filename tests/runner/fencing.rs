//! A result counts only for the run that made it, and effects commit with their completion.

use support::prelude::*;

#[support::test]
async fn run_numbers_grow_with_every_fetch_and_start_again_only_after_the_last_one(database: Database) {
    let (sender, mut started) = mpsc::unbounded_channel();
    let work = move |job: RunningJob<Task>| {
        let _ = sender.send((job.row().run, job.attempt()));
        async move {
            match job.row().run {
                1 | 3 => Outcome::snooze(Duration::ZERO),
                2 => Outcome::retry(Duration::ZERO, "once more"),
                _ => Outcome::complete(),
            }
        }
    };
    database.start(quick(&database.client).worker(work)).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    let row = database.until_state(job.id(), JobState::Completed).await;
    // A snooze does not count as an attempt, so the attempt's number comes back.
    for expected in [(1, 1), (2, 1), (3, 2), (4, 2)] {
        assert_eq!(started.recv().await, Some(expected));
    }
    assert_eq!((row.run, row.attempt), (4, 2));
    database.execute("UPDATE {schema}.job SET state = 'available', finalized_at = NULL, run = 2147483646").await;
    let row = database.until_state(job.id(), JobState::Completed).await;
    assert_eq!(row.run, 2_147_483_647);
    database.execute("UPDATE {schema}.job SET state = 'available', finalized_at = NULL, run = 2147483647").await;
    for expected in [(2_147_483_647, 3), (1, 4), (2, 4), (3, 5), (4, 5)] {
        assert_eq!(timeout(WAIT, started.recv()).await.unwrap(), Some(expected));
    }
}

#[support::test]
async fn a_stale_result_is_dropped_and_complete_in_says_so(database: Database) {
    static GATE: Gate = Gate::closed();
    static REFUSED: Notify = Notify::const_new();
    let work = async |job: RunningJob<Task>| {
        GATE.pass().await;
        let mut tx = job.client().pool().begin().await?;
        let error = job.complete_in(&mut tx).await.unwrap_err();
        assert!(matches!(error, Error::Stale { attempt: 1, .. }), "{error}");
        REFUSED.notify_one();
        Ok::<_, BoxError>(())
    };
    let runner = quick(&database.client).worker(work).start().await.unwrap();
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    GATE.begun(1).await;
    database.give_to_another("true").await;
    GATE.open(1);
    timeout(WAIT, REFUSED.notified()).await.unwrap();
    runner.stop().await.unwrap();
    let row = database.client.job(job.id()).await.unwrap().unwrap();
    assert_eq!((row.state, row.attempt), (JobState::Running, 2), "the other attempt goes on");
    assert!(row.errors.is_empty());
}

/// Many jobs that are not kept are deleted at once, which one stale result must not keep them from.
#[support::test]
async fn a_stale_result_among_many_keeps_its_job_and_no_other(database: Database) {
    const JOBS: usize = 200;
    static GATE: Gate = Gate::closed();
    let work = async |_: RunningJob<Task>| GATE.pass().await;
    database.client.insert_many((0..JOBS as u32).map(|n| Task { n })).await.unwrap();
    let retention = Retention::default().completed(Duration::ZERO);
    let runner = database.runner().queue("default", JOBS).retention(retention).worker(work).start().await.unwrap();
    GATE.begun(JOBS as u32).await;
    database.give_to_another("args->>'n' = '7'").await;
    let mut events = database.client.events();
    GATE.open(JOBS);
    runner.stop().await.unwrap();
    let left = "SELECT string_agg(args->>'n' || ' ' || state, ', ') FROM {schema}.job";
    assert_eq!(database.text(left).await, "7 running");
    let mut told = BTreeMap::new();
    while let Ok(Some(event)) = timeout(Duration::ZERO, events.recv()).await {
        *told.entry(event.happened.as_str()).or_insert(0) += 1;
    }
    assert_eq!((told["completed"], told["stale"]), (JOBS - 1, 1), "{told:?}");
}

#[support::test]
async fn a_cancelled_job_cannot_be_completed_in_a_transaction_and_the_error_says_why(database: Database) {
    static GATE: Gate = Gate::closed();
    static ANSWER: Mutex<Option<(Error, i32)>> = Mutex::new(None);
    let work = async |job: RunningJob<Task>| {
        let mut tx = job.client().pool().begin().await?;
        GATE.pass().await;
        let error = job.complete_in(&mut tx).await.unwrap_err();
        // It is an answer like any other: the transaction can still be used.
        let one: i32 = sqlx::query_scalar("SELECT 1").fetch_one(&mut *tx).await?;
        *ANSWER.lock().unwrap() = Some((error, one));
        Ok::<_, BoxError>(())
    };
    let runner = quick(&database.client).stop_grace(WAIT).worker(work).start().await.unwrap();
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    GATE.begun(1).await;
    database.client.cancel([job.id()]).await.unwrap();
    GATE.open(1);
    runner.stop().await.unwrap();
    let (error, one) = ANSWER.lock().unwrap().take().expect("an answer");
    assert!(error.is_stale() && one == 1);
    assert!(error.to_string().contains("cancelled"), "{error}");
    let row = database.client.job(job.id()).await.unwrap().unwrap();
    assert_eq!((row.state, row.output), (JobState::Cancelled, None));
}

#[support::test]
async fn a_runner_that_lost_its_lease_stops_its_jobs_and_goes_on_under_a_new_one(database: Database) {
    static GATE: Gate = Gate::closed();
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let work = async |_: RunningJob<Task>| {
        GATE.begin();
        if RUNS.fetch_add(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
    };
    let runner = quick(&database.client).lease(Duration::from_secs(1)).worker(work).start().await.unwrap();
    let first = runner.id();
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    GATE.begun(1).await;
    database.end_leases().await;
    let row = database.until_state(job.id(), JobState::Completed).await;
    assert_eq!(RUNS.load(Ordering::SeqCst), 2);
    assert_ne!(runner.id(), first);
    assert_eq!(row.worker, Some(runner.id()));
    runner.stop().await.unwrap();
}

#[support::test]
async fn a_lease_that_was_declared_lost_is_not_extended_again_by_what_was_asked_for_it_before(database: Database) {
    let work = async |job: RunningJob<Task>| {
        if job.args.n == 1 {
            std::future::pending::<()>().await;
        }
    };
    // Commits of the runner's row take longer than a heartbeat has, and come to pass all the same.
    let slow = "CREATE FUNCTION {schema}.slow() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE ON {schema}.runner
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.slow()";
    for length in [1_150, 1_300, 1_450] {
        let runner = quick(&database.client).lease(Duration::from_secs(1)).worker(work).start().await.unwrap();
        let first = runner.id();
        let job = database.client.insert(Task { n: 1 }).await.unwrap();
        database.until_state(job.id(), JobState::Running).await;
        sqlx::raw_sql(database.sql(slow)).execute(database.pool()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(length)).await;
        database.execute("DROP FUNCTION {schema}.slow CASCADE").await;
        // It goes on, under the same lease or a new one; what it had under a lost one is rescued and comes back.
        let holds = "SELECT count(*) FROM {schema}.job AS j WHERE j.state = 'running' AND j.worker = '{id}'";
        eventually!(
            {
                let second = database.client.insert(Task { n: 2 }).await.unwrap();
                database.until_state(second.id(), JobState::Completed).await;
                runner.id() == first || database.number(&holds.replace("{id}", &first.to_string())).await == 0
            },
            "jobs run under a lease that is lost"
        );
        runner.stop_within(Duration::ZERO).await.unwrap();
        database.execute("DELETE FROM {schema}.job").await;
    }
}

#[support::test]
async fn a_lease_that_cannot_be_extended_is_lost_when_its_term_is_over_and_no_later(database: Database) {
    const LEASE: Duration = Duration::from_secs(6);
    let (sender, mut stopped) = mpsc::unbounded_channel();
    let work = move |job: RunningJob<Task>| {
        let sender = sender.clone();
        async move { sender.send((job.stopped().await, Instant::now())) }
    };
    database.start(quick(&database.client).lease(LEASE).worker(work)).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    database.until_state(job.id(), JobState::Running).await;
    database.until("SELECT count(*) FROM {schema}.runner WHERE heartbeat_at > started_at", 1).await;
    let extended_at = Instant::now();
    // Heartbeats wait, and the server ends them.
    let lock = database.begin("LOCK TABLE {schema}.runner IN ACCESS EXCLUSIVE MODE").await;
    let (reason, stopped_at) = timeout(WAIT, stopped.recv()).await.unwrap().unwrap();
    lock.rollback().await.unwrap();
    assert_eq!(reason, StopReason::LeaseLost);
    let after = stopped_at - extended_at;
    assert!(after > LEASE * 9 / 10 && after < LEASE * 11 / 10, "{after:?}");
}
