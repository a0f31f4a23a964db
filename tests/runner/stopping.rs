//! Graceful stops and hard stops.

use tokio::runtime::Handle;

use support::prelude::*;

/// Work that says that it began, and never ends.
pub(super) fn endless() -> (impl uniqueue::Worker<Task> + Clone, Arc<Notify>) {
    let (work, started, _) = held_up();
    (work, started)
}

#[support::test]
async fn a_stop_gives_maintenance_up_while_its_last_jobs_still_run(database: Database) {
    async fn held(database: &Database, wanted: fn(i64) -> bool) {
        let held = "SELECT count(*) FROM {schema}.maintenance WHERE holder IS NOT NULL";
        eventually!(wanted(database.number(held).await));
    }

    let (work, started, go_on) = held_up();
    let runner = quick(&database.client).worker(work).start().await.unwrap();
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    timeout(WAIT, started.notified()).await.unwrap();
    // Some leases are held and others are being taken: none of either may be left.
    held(&database, |services| services > 0).await;
    let stopping = tokio::spawn(runner.stop());
    held(&database, |services| services == 0).await;
    // Nor taken later, while the job still runs.
    tokio::time::sleep(Duration::from_millis(50)).await;
    held(&database, |services| services == 0).await;
    assert!(!stopping.is_finished());
    go_on.add_permits(1);
    timeout(WAIT, stopping).await.unwrap().unwrap().unwrap();
    assert_eq!(database.client.job(job.id()).await.unwrap().unwrap().state, JobState::Completed);
}

#[support::test]
async fn a_stop_that_runs_out_of_time_gives_jobs_back_without_using_up_the_attempt(database: Database) {
    let (work, started) = endless();
    let runner = quick(&database.client).stop_timeout(Duration::from_millis(50)).worker(work).start().await.unwrap();
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    timeout(WAIT, started.notified()).await.unwrap();
    timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    let row = database.client.job(job.id()).await.unwrap().unwrap();
    assert_eq!((row.state, row.attempt, row.errors.len()), (JobState::Available, 0, 0));
}

#[support::test]
async fn r16_a_job_in_order_that_a_stop_interrupts_keeps_the_head_of_its_group(database: Database) {
    let (work, started) = endless();
    let line = |n| NewJob::from(Task { n }).group("line").in_order();
    let first = database.client.insert(line(1)).await.unwrap().id();
    let runner = quick(&database.client).stop_timeout(Duration::from_millis(50)).worker(work).start().await.unwrap();
    timeout(WAIT, started.notified()).await.unwrap();
    database.client.insert(line(2).priority(100)).await.unwrap();
    timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    let row = database.client.job(first).await.unwrap().unwrap();
    assert_eq!((row.state, row.attempt, row.errors.len()), (JobState::Available, 0, 0));
    let next = "SELECT count(*) FROM {schema}.fetch_jobs(ARRAY['default'], 'w', 10) AS f WHERE f.args ->> 'n' = '1'";
    assert_eq!(database.number(next).await, 1);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE state = 'running'").await, 1);
}

#[tokio::test]
async fn a_stop_in_the_middle_of_taking_a_lease_gives_that_up_too() {
    for _ in 0..3 {
        if stop_while_a_lease_is_taken().await {
            return;
        }
    }
    panic!("no lease was taken while the runner stopped");
}

/// Whether a lease was taken in the end: not, if the machine stood still for longer than services wait for a lock.
async fn stop_while_a_lease_is_taken() -> bool {
    let database = Database::new().await;
    // Uncommitted rows: a runner that takes a lease waits for the end of their transaction.
    let mut open = database.pool().begin().await.unwrap();
    let rows = "INSERT INTO {schema}.maintenance (service, leased_until)
        SELECT unnest(ARRAY['promoter', 'pruner', 'rescuer', 'reindexer']), now() RETURNING pg_backend_pid()";
    let pid: i32 = sqlx::query_scalar(database.sql(rows)).fetch_one(&mut *open).await.unwrap();
    let waits = format!("SELECT count(*) FROM pg_stat_activity WHERE {pid} = ANY (pg_blocking_pids(pid))");
    let runner = quick(&database.client).worker(at_once).start().await.unwrap();
    eventually!(database.number(&waits).await > 0, "no lease is being taken");
    let stopping = tokio::spawn(runner.stop());
    // Long enough for the stop to reach the services, and no more than they wait for a lock.
    tokio::time::sleep(Duration::from_millis(50)).await;
    open.rollback().await.unwrap();
    timeout(WAIT, stopping).await.unwrap().unwrap().unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.maintenance WHERE holder IS NOT NULL").await, 0);
    database.number("SELECT count(*) FROM {schema}.maintenance").await == 1
}

/// The fetched jobs then wait for the end of the fetch to be given back, without polling.
#[tokio::test]
async fn a_stop_waits_quietly_for_a_fetch_that_hangs() {
    for _ in 0..5 {
        if let Some(share) = stop_while_a_fetch_hangs().await {
            assert!(share < 0.5, "busy for {share} of the time");
            return;
        }
    }
    panic!("no job ever lay here while a fetch hung");
}

/// For which share of the time the thread is busy in which a stop waits for a fetch. `None`: no job lay here then,
/// since the machine stood still for too long.
async fn stop_while_a_fetch_hangs() -> Option<f64> {
    const HANGS: &str = "SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
        WHERE l.relation = '{schema}.queue'::regclass AND NOT l.granted AND a.datname = current_database()
            AND a.query LIKE '%next jobs of several queues%'";
    const RUNNING: &str = "SELECT count(*) FROM {schema}.job WHERE state = 'running'";
    let database = Database::new().await;
    let (runs, is_locked, go_on) =
        (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)), Arc::new(Semaphore::new(0)));
    let seen = (runs.clone(), is_locked.clone(), go_on.clone());
    let work = move |_: RunningJob<Task>| {
        let (runs, is_locked, go_on) = seen.clone();
        async move {
            runs.fetch_add(1, Ordering::SeqCst);
            if is_locked.load(Ordering::SeqCst) {
                go_on.acquire().await.unwrap().forget();
            } else {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    database.client.insert_many((0..2_000).map(|n| Task { n })).await.unwrap();
    let runner = Runner::new(database.client.clone()).queue("default", 1).worker(work).start().await.unwrap();
    // Until it fetches ahead.
    eventually!(runs.load(Ordering::SeqCst) >= 100);
    let lock = database.begin("LOCK TABLE {schema}.queue IN ACCESS EXCLUSIVE MODE").await;
    is_locked.store(true, Ordering::SeqCst);
    // One job after another, until there is room for a fetch.
    eventually!(
        {
            go_on.add_permits(1);
            database.number(HANGS).await > 0
        },
        "no fetch hangs"
    );
    let in_hand = database.number(RUNNING).await;
    let stopping = tokio::spawn(runner.stop());
    tokio::time::sleep(Duration::from_millis(20)).await;
    go_on.add_permits(1_000);
    let busy = || Handle::current().metrics().worker_total_busy_duration(0);
    let (begun, busy_before) = (Instant::now(), busy());
    tokio::time::sleep(Duration::from_millis(400)).await;
    let share = (busy() - busy_before).div_duration_f64(begun.elapsed());
    assert!(!stopping.is_finished());
    lock.rollback().await.unwrap();
    timeout(WAIT, stopping).await.unwrap().unwrap().unwrap();
    let completed = database.number("SELECT count(*) FROM {schema}.job WHERE state = 'completed'").await;
    assert_eq!(completed, i64::from(runs.load(Ordering::SeqCst)));
    let waiting = "SELECT count(*) FROM {schema}.job WHERE state = 'available' AND attempt = 0";
    assert_eq!(completed + database.number(waiting).await, 2_000);
    (in_hand > 1).then_some(share)
}

#[support::test]
async fn a_stop_does_not_wait_for_somebodys_lock_longer_than_it_was_told(database: Database) {
    let (work, started, go_on) = held_up();
    let runner = quick(&database.client).stop_timeout(Duration::from_millis(200)).stop_grace(Duration::from_millis(1));
    let runner = runner.worker(work).start().await.unwrap();
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    timeout(WAIT, started.notified()).await.unwrap();
    let open = database.begin("SELECT id FROM {schema}.job FOR UPDATE").await;
    go_on.add_permits(1);
    timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    // The statement that was given up waits for the row no more.
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    database.until(waits, 0).await;
    open.commit().await.unwrap();
    // The result is lost and the job is not: it has no runner any more, so the next one rescues it.
    let row = database.client.job(job.id()).await.unwrap().unwrap();
    assert_eq!(row.state, JobState::Running);
    database.start(quick(&database.client).lease(Duration::from_secs(1)).worker(at_once)).await;
    let row = database.until_state(job.id(), JobState::Completed).await;
    assert_eq!(row.run, 2);
}

const RUNNERS: &str = "SELECT count(*) FROM {schema}.runner";

#[support::test]
async fn a_stop_that_nobody_waits_for_any_more_goes_on_to_its_end(database: Database) {
    let (work, started, go_on) = held_up();
    let runner = quick(&database.client).worker(work.clone()).start().await.unwrap();
    let first = database.client.insert(Task { n: 1 }).await.unwrap();
    timeout(WAIT, started.notified()).await.unwrap();
    assert!(timeout(Duration::from_millis(20), runner.stop()).await.is_err());
    go_on.add_permits(1);
    database.until(RUNNERS, 0).await;
    assert_eq!(database.client.job(first.id()).await.unwrap().unwrap().state, JobState::Completed);
    // The same for a runner that runs until a signal, when its future is dropped.
    let running = tokio::spawn(quick(&database.client).worker(work).run_until(std::future::pending()));
    let second = database.client.insert(Task { n: 2 }).await.unwrap();
    timeout(WAIT, started.notified()).await.unwrap();
    running.abort();
    go_on.add_permits(1);
    database.until(RUNNERS, 0).await;
    assert_eq!(database.client.job(second.id()).await.unwrap().unwrap().state, JobState::Completed);
}

#[support::test]
async fn the_clock_of_a_stop_runs_while_a_fetch_hangs(database: Database) {
    static STARTED: Notify = Notify::const_new();
    static TOLD: Notify = Notify::const_new();
    let work = async |job: RunningJob<Task>| {
        STARTED.notify_one();
        job.stopped().await;
        TOLD.notify_one();
    };
    // Shorter than the lease, which is how long a fetch may hang.
    let runner = quick(&database.client).poll_interval(Duration::from_millis(10)).worker(work).start().await.unwrap();
    database.client.insert(Task { n: 1 }).await.unwrap();
    timeout(WAIT, STARTED.notified()).await.unwrap();
    let migration = database.begin("LOCK TABLE {schema}.job IN ACCESS EXCLUSIVE MODE").await;
    database.until_waits_for("job").await;
    let began = Instant::now();
    let stopping = tokio::spawn(runner.stop_within(Duration::from_millis(100)));
    timeout(WAIT, TOLD.notified()).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "told to stop after {:?}", began.elapsed());
    migration.rollback().await.unwrap();
    timeout(WAIT, stopping).await.unwrap().unwrap().unwrap();
}

#[support::test]
async fn a_stop_tries_what_waits_aside_once_more_however_long_its_turn_was_to_come(database: Database) {
    let (work, started, go_on) = held_up();
    let runner = quick(&database.client).stop_grace(Duration::from_millis(100)).worker(work).start().await.unwrap();
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    timeout(WAIT, started.notified()).await.unwrap();
    let open = database.begin("SELECT id FROM {schema}.job FOR UPDATE").await;
    go_on.add_permits(1);
    // Until the result waits for a second and more between its tries.
    tokio::time::sleep(Duration::from_millis(2_300)).await;
    open.rollback().await.unwrap();
    timeout(WAIT, runner.stop_within(Duration::from_millis(100))).await.unwrap().unwrap();
    assert_eq!(database.client.job(job.id()).await.unwrap().unwrap().state, JobState::Completed);
}
