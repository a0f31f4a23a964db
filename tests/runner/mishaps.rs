//! Failures that a runner survives: odd rows, panics, a pool of one connection, a database that stops.

use support::prelude::*;

#[support::test]
async fn r6_a_row_that_cannot_be_read_stops_no_other_job(database: Database) {
    let mut jobs = Vec::new();
    for n in 0..6 {
        jobs.push(database.client.insert(Task { n }).max_attempts(2).await.unwrap().id());
    }
    let spoil = async |index: usize, what: &str| {
        let id = jobs[index];
        database.execute(&format!("UPDATE {{schema}}.job SET {what} WHERE id = '{id}'")).await;
    };
    spoil(0, r#"meta = '{"n": 1e400}'"#).await;
    spoil(1, "scheduled_at = '-infinity'").await;
    spoil(2, "created_at = 'infinity'").await;
    spoil(3, "args = '[]'").await;
    spoil(4, "until_start = true").await;
    spoil(5, r#"errors = '["by hand"]'"#).await;
    database.start(quick(&database.client).worker(at_once)).await;
    for index in [1, 2, 4, 5] {
        database.until_state(jobs[index], JobState::Completed).await;
    }
    database.until_state(jobs[3], JobState::Discarded).await;
    let state = format!("SELECT state::text FROM {{schema}}.job WHERE id = '{}'", jobs[0]);
    eventually!(database.text(&state).await == "discarded");
}

#[support::test]
async fn times_beyond_all_calendars_are_read_as_the_last_day(database: Database, client: &Client) {
    let far = client.insert(job("a").unique_key(UniqueKey::raw("k"))).await.unwrap();
    database.execute("UPDATE {schema}.job SET unique_until = 'infinity', created_at = '4713-01-01 BC'").await;
    let far = client.job(far.id()).await.unwrap().unwrap();
    assert_eq!((far.unique_until.unwrap().year(), far.created_at.year()), (9999, 0));
    let again = client.insert(job("a").unique_key(UniqueKey::raw("k"))).max_wait(Duration::MAX).await.unwrap();
    assert!(again.duplicate);
}

#[support::test]
async fn a_panic_while_the_work_is_dropped_leaks_neither_the_job_nor_its_slot(database: Database) {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("dropped");
            }
        }
    }
    static RUNS: AtomicU32 = AtomicU32::new(0);
    static GATE: Gate = Gate::closed();
    let work = async |_: RunningJob<Task>| {
        let run = RUNS.fetch_add(1, Ordering::SeqCst);
        let _bomb = (run < 2).then(|| Bomb);
        GATE.begin();
        if run < 2 {
            std::future::pending::<()>().await;
        }
    };
    // One slot: a slot that leaks is the end of the queue.
    let runner = database.runner().queue("default", 1).lease(Duration::from_secs(1));
    database.start(runner.retry_policy(uniqueue::RetryPolicy::fixed(Duration::ZERO)).worker(work)).await;
    let inserted = database.client.insert(Task { n: 1 }).await.unwrap();
    for _ in 0..2 {
        GATE.begun(1).await;
        // The lease is lost, so the work is dropped, and the bomb goes off.
        database.end_leases().await;
    }
    database.until_state(inserted.id(), JobState::Completed).await;
}

#[support::test]
async fn jobs_of_a_fetch_whose_answer_was_lost_are_given_back(database: Database) {
    let runner = database.start(quick(&database.client).worker(at_once)).await;
    // As a fetch leaves it whose answer did not arrive: running here, unknown to the runner.
    let lost = database.client.insert(Task { n: 1 }).pending().await.unwrap();
    let running = format!("state = 'running', attempt = 1, worker = '{runner}'");
    database.execute(&format!("UPDATE {{schema}}.job SET {running} WHERE id = '{}'", lost.id())).await;
    // The runner learns of it by a fetch that fails.
    database.execute("ALTER TABLE {schema}.queue RENAME TO away").await;
    until_sent("fetch_jobs(", 2).await;
    database.execute("ALTER TABLE {schema}.away RENAME TO queue").await;
    let row = database.until_state(lost.id(), JobState::Completed).await;
    assert_eq!((row.attempt, row.errors.len()), (1, 0));
}

#[support::test]
async fn work_that_is_dropped_while_it_begins_a_transaction_leaves_none_to_the_runner(database: Database) {
    let client = database.client_at(&database.url, 1).await;
    static GATE: Gate = Gate::closed();
    let work = async |job: RunningJob<Task>| {
        if job.args.n == 0 {
            support::leave_open(job.client().pool()).await;
            GATE.begin();
        }
    };
    database.start(quick(&client).worker(work)).await;
    let first = database.client.insert(Task { n: 0 }).await.unwrap();
    GATE.begun(1).await;
    let second = database.client.insert(Task { n: 1 }).await.unwrap();
    // Seen over other connections, so these are committed.
    for job in [first, second] {
        database.until_state(job.id(), JobState::Completed).await;
    }
    let mut left = client.pool().acquire().await.unwrap();
    // In one transaction now() stands still.
    let mut times = Vec::new();
    for _ in 0..2 {
        let now: time::OffsetDateTime = sqlx::query_scalar("SELECT now()").fetch_one(&mut *left).await.unwrap();
        times.push(now);
    }
    assert_eq!(
        times[0], times[1],
        "sqlx leaves no transaction open any more: the first reason for connections of the runner's own is gone"
    );
}

#[support::test]
async fn killed_connections_lose_no_job(database: Database, client: &Client) {
    let runner = quick(client).worker(at_once).start().await.unwrap();
    let (mut killer, all) = (PgConnection::connect(&database.url).await.unwrap(), 3000);
    for chunk in 0..10 {
        let jobs: Vec<_> = (0..all / 10).map(|n| NewJob::from(Task { n: chunk * 1000 + n })).collect();
        while client.insert_many(jobs.clone()).await.is_err() {}
        // All of the pool but the killer's own, in the midst of whatever they do.
        let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE pid <> pg_backend_pid() AND datname = current_database() AND query LIKE '%\"' || $1 || '\".%'";
        let killed = sqlx::query(kill).bind(&database.schema).execute(&mut killer).await.unwrap();
        assert!(killed.rows_affected() > 0);
    }
    let open = format!("SELECT count(*) FROM {}.job WHERE state <> 'completed'", database.schema);
    eventually!(
        sqlx::query_scalar::<_, i64>(database.sql(&open)).fetch_one(&mut killer).await.unwrap() == 0,
        "jobs are stuck"
    );
    let _ = runner.stop().await;
}

#[tokio::test]
async fn a_stop_without_a_database_takes_no_longer_than_about_a_lease() {
    let postgres = Postgres::builder().start().await.unwrap();
    let client = Client::connect(postgres.url()).await.unwrap();
    client.migrate().await.unwrap();
    let (work, started, go_on) = held_up();
    let runner = quick(&client).lease(Duration::from_secs(2)).worker(work).start().await.unwrap();
    client.insert(Task { n: 1 }).await.unwrap();
    timeout(WAIT, started.notified()).await.unwrap();
    postgres.stop().await.unwrap();
    // A result that the application does not take.
    go_on.add_permits(1);
    let began = Instant::now();
    let stopped = timeout(WAIT, runner.stop()).await.expect("a stop");
    assert!(stopped.is_err());
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_runner_goes_on_after_the_database_crashed_under_it() {
    // What was committed must survive the crash, or there is nothing to go on with.
    let postgres = Postgres::builder().setting("synchronous_commit", "on").start().await.unwrap();
    let client = Client::connect(postgres.url()).await.unwrap();
    client.migrate().await.unwrap();
    let work = |_: RunningJob<Task>| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let runner = quick(&client).lease(Duration::from_secs(2)).worker(work).start().await.unwrap();
    client.insert_many((0..1500).map(|n| Task { n })).await.unwrap();
    for _ in 0..3 {
        // A backend that is killed makes the server restart all of them, with crash recovery.
        let victim = eventually!(
            let pid = sqlx::query_scalar::<_, i32>("SELECT pg_backend_pid()").fetch_one(client.pool()).await;
            pid.is_ok(), "the database does not come back: {pid:?}"
        );
        let victim = victim.unwrap();
        std::process::Command::new("kill").args(["-9", &victim.to_string()]).status().unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    eventually!(client.insert(Task { n: 9999 }).await.is_ok(), "the database does not come back");
    let open = "SELECT count(*) FROM uniqueue.job WHERE state <> 'completed'";
    eventually!(
        let left = sqlx::query_scalar::<_, i64>(open).fetch_one(client.pool()).await;
        matches!(left, Ok(0)), "jobs are stuck: {left:?}"
    )
    .unwrap();
    timeout(WAIT, runner.stop()).await.unwrap().unwrap();
}
