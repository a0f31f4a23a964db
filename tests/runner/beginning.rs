//! The start of jobs: one task starts many in a row, and no job delays another.

use tokio::sync::mpsc::UnboundedSender;

use support::prelude::*;

/// Works as many jobs as there are slots, each of which blocks its thread until all of them are there. Answers how
/// long the first waited for the last.
async fn all_block_at_once(slots: u32, block: fn(&dyn Fn())) -> Duration {
    let database = Database::new().await;
    let seen = Arc::new((AtomicU32::new(0), Mutex::new(Duration::ZERO)));
    let shared = Arc::clone(&seen);
    let worker = move |_: RunningJob<Task>| {
        let seen = Arc::clone(&shared);
        async move {
            block(&|| {
                let (here, waited) = &*seen;
                let begun = Instant::now();
                here.fetch_add(1, Ordering::SeqCst);
                eventually!(blocking here.load(Ordering::SeqCst) >= slots, "another job was not begun");
                let mut waited = waited.lock().unwrap();
                *waited = begun.elapsed().max(*waited);
            });
        }
    };
    let jobs: Vec<_> = (0..slots).map(|n| NewJob::from(Task { n })).collect();
    let jobs = database.client.insert_many(jobs).await.unwrap();
    let runner = Runner::new(database.client.clone()).queue("default", slots as usize).worker(worker);
    let runner = runner.start().await.unwrap();
    for job in jobs {
        assert_eq!(database.until_state(job.id(), JobState::Completed).await.attempt, 1);
    }
    runner.stop().await.unwrap();
    *seen.1.lock().unwrap()
}

/// After a second jobs that lie about are given back and fetched again, and begun then. A machine that stands still
/// for a moment is no proof.
async fn all_block_soon(slots: u32, block: fn(&dyn Fn())) {
    let mut waits = Vec::new();
    for _ in 0..3 {
        waits.push(all_block_at_once(slots, block).await);
        if waits.last() < Some(&Duration::from_millis(800)) {
            return;
        }
    }
    panic!("the last job was begun this long after the first: {waits:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 5)]
async fn work_that_blocks_its_thread_holds_up_no_job_while_there_are_threads() {
    all_block_soon(3, |wait| wait()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_blocks_in_place_holds_up_no_job() {
    all_block_soon(8, |wait| tokio::task::block_in_place(wait)).await;
}

/// What a quick job, or the taking of a job, woke goes on although the next job blocks the thread on which it was
/// woken.
#[support::test(flavor = "multi_thread", worker_threads = 4)]
async fn work_that_blocks_its_thread_holds_up_no_result_and_no_fetch(database: Database) {
    const LAST: u32 = 60;
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let worker = async |job: RunningJob<Task>| {
        eventually!(blocking job.args.n != LAST || IS_OVER.load(Ordering::SeqCst), "nothing else went on");
    };
    let mut jobs = database.client.insert_many((0..=LAST).map(|n| Task { n })).await.unwrap();
    let last = jobs.pop().unwrap().id();
    database.start(database.runner().queue("default", jobs.len() + 1).worker(worker)).await;
    jobs.push(database.client.insert(Task { n: 0 }).await.unwrap());
    for job in jobs {
        database.until_state(job.id(), JobState::Completed).await;
    }
    assert_eq!(database.client.job(last).await.unwrap().unwrap().state, JobState::Running);
    IS_OVER.store(true, Ordering::SeqCst);
    database.until_state(last, JobState::Completed).await;
}

#[support::test(flavor = "multi_thread", worker_threads = 4)]
async fn work_that_computes_until_it_is_stopped_hears_of_the_stop(database: Database) {
    let worker = async |job: RunningJob<Task>| {
        eventually!(blocking job.is_stopped(), "it did not hear");
        Err::<(), _>("stopped".to_owned())
    };
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    let runner = database.runner().queue("default", 1).worker(worker).start().await.unwrap();
    database.until_state(job.id(), JobState::Running).await;
    runner.stop_within(Duration::from_millis(100)).await.unwrap();
    let job = database.client.job(job.id()).await.unwrap().unwrap();
    assert_eq!((job.state, job.attempt, job.errors), (JobState::Available, 0, vec![]));
}

#[support::test(flavor = "multi_thread", worker_threads = 3)]
async fn of_quick_jobs_and_slow_ones_never_more_run_at_once_than_there_are_slots(database: Database) {
    const JOBS: u32 = 3_000;
    const SLOTS: u32 = 7;
    static RUNNING: AtomicU32 = AtomicU32::new(0);
    static MOST: AtomicU32 = AtomicU32::new(0);
    let worker = async |job: RunningJob<Task>| {
        MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        match job.args.n % 8 {
            0 => tokio::task::yield_now().await,
            1 => tokio::time::sleep(Duration::from_micros(u64::from(job.args.n % 500))).await,
            2 => assert_eq!(RUNNING.fetch_sub(1, Ordering::SeqCst), 0, "unlucky"),
            _ => {}
        }
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    };
    database.client.insert_many((0..JOBS).map(|n| NewJob::from(Task { n }).max_attempts(1))).await.unwrap();
    let runner = database.runner().queue("default", SLOTS as usize).worker(worker).start().await.unwrap();
    let left = "SELECT count(*) FROM {schema}.job WHERE finalized_at IS NULL";
    eventually!(database.number(left).await == 0, "{} jobs are left", database.number(left).await);
    runner.stop().await.unwrap();
    let most = MOST.load(Ordering::SeqCst);
    assert!((2..=SLOTS).contains(&most), "{most} at once");
    let ended = "SELECT count(*) FROM {schema}.job WHERE attempt = 1 AND state IN ('completed', 'discarded')";
    assert_eq!(database.number(ended).await, i64::from(JOBS));
}

#[support::test]
async fn results_of_different_attempts_count_in_one_batch(database: Database) {
    const JOBS: u32 = 300;
    let jobs = database.client.insert_many((0..JOBS).map(|n| Task { n })).await.unwrap();
    database.execute("UPDATE {schema}.job SET attempt = (args ->> 'n')::integer % 3").await;
    database.start(quick(&database.client).worker(at_once)).await;
    for (n, job) in (0..).zip(&jobs) {
        assert_eq!(database.until_state(job.id(), JobState::Completed).await.attempt, n % 3 + 1);
    }
}

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "another")]
struct Another {
    n: u32,
}

/// A worker that tells how it sees its job, and how it is stored.
fn telling<J: Job>(told: UnboundedSender<(Value, Value)>) -> impl uniqueue::Worker<J> {
    move |job: RunningJob<J>| {
        let told = told.clone();
        async move {
            let stored = job.client().job(job.id()).await.unwrap().unwrap();
            told.send((json!(job.row()), json!(stored))).unwrap();
        }
    }
}

/// What is usual in a job is not sent with it, and what is not, is.
#[support::test]
async fn a_worker_has_every_column_of_its_job_however_unusual(database: Database) {
    let (told, mut rows) = tokio::sync::mpsc::unbounded_channel();
    let task = |n| NewJob::from(Task { n });
    let dated = UniquePolicy::new().by_args().ttl(HOUR);
    let jobs = [
        task(0),
        task(1).priority(-3),
        task(2).max_attempts(26),
        task(3).meta("a", json!({"b": [1.5, null]})),
        task(4).scheduled_at(time::OffsetDateTime::now_utc() - time::Duration::HOUR),
        task(5).unique_key(UniqueKey::raw("five")),
        task(6).unique(dated),
        task(7).unique(UniquePolicy::new().by_args().until_start()),
        task(8).queue("other"),
        task(9),
        task(10),
        task(11).unique(UniquePolicy::new().by_args().scope(UniqueScope::Queued)),
        NewJob::from(Another { n: 12 }),
        // Comes to its claim's states when it is fetched.
        task(13).unique_key(UniqueKey::raw("thirteen").states([JobState::Running])),
        task(14).unique(UniquePolicy::new().by_args().period(MINUTE)),
        NewJob::from(Another { n: 15 }).priority(-7).max_attempts(3).queue("other"),
    ];
    let count = jobs.len();
    let jobs = database.client.insert_many(jobs).await.unwrap();
    let left = |column: &str, id| format!("UPDATE {{schema}}.job SET {column} WHERE id = '{id}'");
    let errors = r#"errors = '[{"attempt": 1, "at": "2026-01-02T03:04:05Z", "error": "no"}]', attempt = 1"#;
    database.execute(&left(errors, jobs[9].id())).await;
    database.execute(&left("progress = '50', output = '{\"a\": 1}'", jobs[10].id())).await;
    let runner = quick(&database.client).queue("other", 10);
    database.start(runner.worker(telling::<Task>(told.clone())).worker(telling::<Another>(told))).await;
    let mut seen = BTreeSet::new();
    for _ in 0..count {
        let (row, stored) = timeout(WAIT, rows.recv()).await.unwrap().unwrap();
        assert_eq!(row, stored);
        seen.insert(row["args"]["n"].as_u64());
    }
    assert_eq!(seen.len(), count);
}
