//! Batch workers: one call for several jobs, each with an outcome of its own.

use support::prelude::*;

async fn insert(database: &Database, jobs: u32) -> Vec<JobId> {
    let jobs = (0..jobs).map(|n| NewJob::from(Task { n }).max_attempts(2));
    database.client.insert_many(jobs).await.unwrap().iter().map(Inserted::id).collect()
}
fn slots(database: &Database, slots: usize) -> Runner {
    let runner = database.runner().queue("default", slots).promote_interval(Duration::from_millis(20));
    runner.retry_policy(RetryPolicy::fixed(MINUTE))
}

fn batches_of(jobs: usize, wait: Duration) -> WorkerOptions {
    WorkerOptions::new().batch_size(jobs).batch_wait(wait)
}

async fn count(database: &Database, condition: &str) -> i64 {
    database.number(&format!("SELECT count(*) FROM {{schema}}.job WHERE {condition}")).await
}

#[support::test]
async fn a_batch_has_at_most_its_size_and_each_job_its_own_outcome(database: Database) {
    insert(&database, 25).await;
    static SIZES: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let work = |jobs: Vec<RunningJob<Task>>| {
        SIZES.lock().unwrap().push(jobs.len());
        let result = |job: &RunningJob<Task>| match job.args.n % 5 {
            0 => Ok(Outcome::complete_with(job.args.n).unwrap()),
            1 => Ok(Outcome::snooze(MINUTE)),
            2 => Err(JobError::new("no").code("two")),
            3 => Err(JobError::new("never").permanent()),
            _ => Ok(Outcome::complete()),
        };
        std::future::ready(jobs.iter().map(result).collect::<Vec<_>>())
    };
    let size = batches_of(10, Duration::from_millis(50));
    database.start(slots(&database, 40).batch_worker(work, size)).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state IN ('available', 'running')", 0).await;
    let sizes = SIZES.lock().unwrap().clone();
    assert!(sizes.iter().sum::<usize>() == 25 && sizes.iter().all(|size| *size <= 10), "{sizes:?}");
    assert!(sizes.contains(&10), "{sizes:?}");
    assert_eq!(count(&database, "state = 'completed' AND attempt = 1").await, 10);
    assert_eq!(count(&database, "state = 'completed' AND output = args -> 'n'").await, 5);
    assert_eq!(count(&database, "state = 'scheduled' AND attempt = 0").await, 5);
    assert_eq!(count(&database, "state = 'retryable' AND errors -> 0 ->> 'code' = 'two'").await, 5);
    assert_eq!(count(&database, "state = 'discarded' AND errors -> 0 ->> 'error' = 'never'").await, 5);
}

#[support::test]
async fn a_batch_that_is_full_does_not_wait_and_one_that_is_not_waits_for_its_time(database: Database) {
    insert(&database, 10).await;
    let runner = |wait| slots(&database, 10).batch_worker(async |_: Vec<RunningJob<Task>>| {}, batches_of(10, wait));
    database.start(runner(MINUTE)).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 10).await;
    database.end().await;
    insert(&database, 3).await;
    let wait = Duration::from_millis(300);
    let began = Instant::now();
    database.start(runner(wait)).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 13).await;
    assert!(began.elapsed() >= wait, "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_error_for_all_a_panic_and_a_wrong_number_of_results_fail_each_job() {
    for (way, text, code) in [
        (0, "the service is down", Some("down")),
        (1, "oh no", Some("panicked")),
        (2, "the batch worker returned 3 results for 4 jobs", None),
        (3, "the batch worker returned 5 results for 4 jobs", None),
    ] {
        let database = Database::new().await;
        insert(&database, 4).await;
        let work = move |_: Vec<RunningJob<Task>>| async move {
            match way {
                0 => Err(JobError::new("the service is down").code("down")),
                1 => panic!("oh no"),
                2 => Ok(vec![(); 3]),
                _ => Ok(vec![(); 5]),
            }
        };
        let runner = slots(&database, 4).batch_worker(work, batches_of(4, MINUTE)).start().await.unwrap();
        let failed = format!("SELECT count(*) FROM {{schema}}.job WHERE errors -> 0 ->> 'error' LIKE '%{text}%'");
        database.until(&failed, 4).await;
        runner.stop().await.unwrap();
        if let Some(code) = code {
            assert_eq!(count(&database, &format!("errors -> 0 ->> 'code' = '{code}' AND attempt = 1")).await, 4);
        }
    }
}

#[support::test]
async fn one_job_of_a_batch_is_cancelled_and_the_others_go_on(database: Database) {
    let ids = insert(&database, 3).await;
    static GATE: Gate = Gate::closed();
    let work = async |_: Vec<RunningJob<Task>>| GATE.pass().await;
    let runner = slots(&database, 3).stop_grace(Duration::ZERO);
    database.start(runner.batch_worker(work, batches_of(3, MINUTE))).await;
    GATE.begun(1).await;
    // The job with which the batch began.
    database.client.cancel([ids[0]]).await.unwrap();
    // Its slot is free, and a job that comes now starts another batch.
    let next = database.client.insert(Task { n: 9 }).await.unwrap().id();
    let started = format!("SELECT count(*) FROM {{schema}}.job WHERE id = '{next}' AND state = 'running'");
    database.until(&started, 1).await;
    GATE.open(1);
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 2).await;
    assert_eq!(database.client.job(ids[0]).await.unwrap().unwrap().state, JobState::Cancelled);
    database.client.cancel([next]).await.unwrap();
}

#[support::test]
async fn each_job_of_a_batch_that_takes_too_long_has_failed(database: Database) {
    insert(&database, 3).await;
    static IS_DROPPED: AtomicBool = AtomicBool::new(false);
    struct Dropped;
    impl Drop for Dropped {
        fn drop(&mut self) {
            IS_DROPPED.store(true, Ordering::Relaxed);
        }
    }
    let work = async |_: Vec<RunningJob<Task>>| {
        let _dropped = Dropped;
        std::future::pending::<()>().await;
    };
    let options = WorkerOptions::new().timeout(Duration::from_millis(200));
    let runner = slots(&database, 3).stop_grace(Duration::ZERO);
    database.start(runner.batch_worker(work, options.batch_size(3).batch_wait(MINUTE))).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE errors -> 0 ->> 'code' = 'timed_out'", 3).await;
    assert_eq!(count(&database, "state = 'retryable' AND attempt = 1").await, 3);
    eventually!(IS_DROPPED.load(Ordering::Relaxed), "the work goes on without its jobs");
}

#[tokio::test]
async fn a_graceful_stop_finishes_a_batch_and_a_hard_one_gives_its_jobs_back() {
    for is_hard in [false, true] {
        let database = Database::new().await;
        insert(&database, 3).await;
        static GATE: Gate = Gate::closed();
        let work = async |_: Vec<RunningJob<Task>>| GATE.pass().await;
        let runner = slots(&database, 3).stop_grace(Duration::ZERO);
        let runner = if is_hard { runner.stop_timeout(Duration::ZERO) } else { runner };
        let runner = runner.batch_worker(work, batches_of(3, MINUTE)).start().await.unwrap();
        GATE.begun(1).await;
        let stopping = tokio::spawn(runner.stop());
        if !is_hard {
            GATE.open(1);
        }
        timeout(WAIT, stopping).await.unwrap().unwrap().unwrap();
        let ended = if is_hard { "state = 'available' AND attempt = 0" } else { "state = 'completed'" };
        assert_eq!(count(&database, ended).await, 3);
    }
}

#[support::test]
async fn a_runner_that_must_stop_does_not_wait_for_more_jobs_of_a_batch(database: Database) {
    insert(&database, 2).await;
    let work = async |_: Vec<RunningJob<Task>>| {};
    let runner = slots(&database, 9).stop_timeout(Duration::ZERO).stop_grace(WAIT);
    let runner = runner.batch_worker(work, batches_of(9, 60 * MINUTE)).start().await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'running'", 2).await;
    timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    assert_eq!(count(&database, "state IN ('completed', 'available')").await, 2);
}

#[support::test]
async fn a_suspect_is_worked_alone(database: Database) {
    let ids = insert(&database, 6).await;
    database.execute(&format!("UPDATE {{schema}}.job SET crashes = 1 WHERE id = '{}'", ids[0])).await;
    static WAS_ALONE: AtomicBool = AtomicBool::new(false);
    let work = |jobs: Vec<RunningJob<Task>>| {
        if jobs.iter().any(|job| job.row().crashes > 0) {
            WAS_ALONE.store(jobs.len() == 1, Ordering::Relaxed);
        }
        std::future::ready(())
    };
    let size = batches_of(6, Duration::from_millis(100));
    database.start(slots(&database, 12).batch_worker(work, size)).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 6).await;
    assert!(WAS_ALONE.load(Ordering::Relaxed));
}

#[support::test]
async fn a_batch_takes_as_many_places_of_a_limit_and_a_group_as_it_has_jobs(database: Database) {
    database.client.queue("default").limit(Some(4)).await.unwrap();
    let grouped = |n: u32| NewJob::from(Task { n }).group(format!("g{}", n % 3)).group_limit(1);
    database.client.insert_many((0..30).map(grouped)).await.unwrap();
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let work = |jobs: Vec<RunningJob<Task>>| {
        let mut groups: Vec<_> = jobs.iter().map(|job| job.row().group_key.clone()).collect();
        groups.sort();
        groups.dedup();
        assert_eq!(groups.len(), jobs.len(), "two of one group at once");
        MOST.fetch_max(jobs.len(), Ordering::Relaxed);
        std::future::ready(())
    };
    let size = batches_of(10, Duration::from_millis(30));
    database.start(slots(&database, 20).batch_worker(work, size)).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 30).await;
    assert!(MOST.load(Ordering::Relaxed) <= 3);
}

#[support::test(with_connections(30), flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_where_jobs_of_batches_fail_hang_panic_and_are_cancelled(database: Database) {
    let ids = insert(&database, 400).await;
    let work = async |jobs: Vec<RunningJob<Task>>| -> Result<Vec<Result<(), BoxError>>, BoxError> {
        let first = jobs[0].args.n;
        tokio::time::sleep(Duration::from_millis(u64::from(first % 7))).await;
        match first % 11 {
            0 if jobs[0].attempt() == 1 => panic!("oh no"),
            1 if jobs[0].attempt() == 1 => std::future::pending().await,
            2 => Err("no luck".into()),
            _ => Ok(jobs.iter().map(|job| if job.args.n % 5 == 0 { Err("no".into()) } else { Ok(()) }).collect()),
        }
    };
    let options =
        WorkerOptions::new().timeout(Duration::from_millis(500)).retry_policy(RetryPolicy::fixed(Duration::ZERO));
    let options = options.batch_size(8).batch_wait(Duration::from_millis(5));
    database.start(quick(&database.client).stop_grace(Duration::ZERO).batch_worker(work, options)).await;
    for some in ids.chunks(40) {
        database.client.cancel([some[7]]).await.unwrap();
    }
    database.until("SELECT count(*) FROM {schema}.job WHERE finalized_at IS NULL", 0).await;
    assert_eq!(count(&database, "state = 'discarded' AND (attempt <> 2 OR jsonb_array_length(errors) <> 2)").await, 0);
    assert_eq!(count(&database, "state = 'completed' AND attempt <> jsonb_array_length(errors) + 1").await, 0);
}

/// Prints how long 10,000 jobs take: `cargo test --test work batches::measure -- --ignored --nocapture`.
#[ignore = "a measurement"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn measure_ten_thousand_jobs() {
    for _ in 0..3 {
        for is_batched in [false, true] {
            let database = Database::new().await;
            insert(&database, 10_000).await;
            let runner = slots(&database, 400);
            let began = Instant::now();
            let call = || tokio::time::sleep(Duration::from_millis(5));
            let runner = if is_batched {
                let work = move |_: Vec<RunningJob<Task>>| call();
                runner.batch_worker(work, batches_of(100, Duration::from_millis(20)))
            } else {
                runner.worker(move |_: RunningJob<Task>| call())
            };
            let runner = runner.start().await.unwrap();
            database.until("SELECT count(*) FROM {schema}.job WHERE state <> 'completed'", 0).await;
            eprintln!("batched {is_batched}: {:?}", began.elapsed());
            runner.stop().await.unwrap();
        }
    }
}
