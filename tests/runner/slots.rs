//! Slots: how many jobs of a queue run, and how many are fetched ahead.

use support::prelude::*;

const JOBS: i64 = 3_000;

/// Quick jobs on one slot. The first that sees others fetched behind it waits for `go_on`.
struct Jam {
    jammed: Notify,
    go_on: Notify,
    is_jammed: AtomicBool,
    /// How many jobs were begun under which lease.
    begun: Mutex<HashMap<Uuid, i64>>,
}

impl Jam {
    async fn start(database: &Database, runner: Runner) -> (Arc<Self>, RunnerHandle) {
        database.client.insert_many((0..JOBS).map(|n| NewJob::from(Task { n: n as u32 }))).await.unwrap();
        let jam = Arc::new(Jam {
            jammed: Notify::new(),
            go_on: Notify::new(),
            is_jammed: AtomicBool::new(false),
            begun: Mutex::default(),
        });
        let shared = jam.clone();
        let running = database.sql("SELECT count(*) FROM {schema}.job WHERE state = 'running'");
        let work = move |job: RunningJob<Task>| {
            let (jam, running) = (shared.clone(), running.clone());
            async move {
                *jam.begun.lock().unwrap().entry(job.row().worker.unwrap()).or_default() += 1;
                if jam.is_jammed.load(Ordering::Acquire) {
                    return;
                }
                let running: i64 = sqlx::query_scalar(running).fetch_one(job.client().pool()).await.unwrap();
                if running > 1 {
                    jam.is_jammed.store(true, Ordering::Release);
                    jam.jammed.notify_one();
                    jam.go_on.notified().await;
                }
            }
        };
        let runner = runner.worker(work).start().await.unwrap();
        timeout(WAIT, jam.jammed.notified()).await.expect("a job fetched ahead");
        (jam, runner)
    }

    fn begun_under(&self, lease: Uuid) -> i64 {
        self.begun.lock().unwrap().get(&lease).copied().unwrap_or_default()
    }
}

fn on_one_slot(client: &Client) -> Runner {
    Runner::new(client.clone()).queue("default", 1)
}

#[support::test(flavor = "multi_thread")]
async fn quick_jobs_start_in_order_on_one_slot(database: Database) {
    const COUNT: usize = 2_500;
    let job = |n: usize| NewJob::from(Task { n: n as u32 }).priority(if n < COUNT / 2 { 0 } else { 7 });
    database.client.insert_many((0..COUNT).map(job)).await.unwrap();
    let (work, mut starts) = telling(|job| (std::cmp::Reverse(job.row().priority), job.row().scheduled_at, job.id()));
    database.start(on_one_slot(&database.client).worker(work)).await;
    let mut places = Vec::with_capacity(COUNT);
    while places.len() < COUNT {
        places.push(next(&mut starts).await);
    }
    assert!(places.is_sorted(), "by priority, then time, then id");
}

#[support::test]
async fn a_stop_gives_back_what_was_fetched_ahead_with_its_attempt(database: Database) {
    let (jam, runner) = Jam::start(&database, on_one_slot(&database.client)).await;
    let stopping = tokio::spawn(runner.stop());
    // What lies there is given back while the last job still runs.
    eventually!(
        database.number("SELECT count(*) FROM {schema}.job WHERE state = 'running'").await <= 1,
        "jobs fetched ahead were not given back"
    );
    jam.go_on.notify_one();
    timeout(WAIT, stopping).await.unwrap().unwrap().unwrap();
    let lost = "SELECT count(*) FROM {schema}.job
        WHERE NOT (state = 'available' AND attempt = 0) AND NOT (state = 'completed' AND attempt = 1)";
    assert_eq!(database.number(lost).await, 0);
}

#[support::test]
async fn what_lies_behind_a_slow_job_goes_to_another_runner(database: Database) {
    let (jam, slow) = Jam::start(&database, on_one_slot(&database.client)).await;
    database.start(on_one_slot(&database.client).worker(at_once)).await;
    eventually!(
        database.number("SELECT count(*) FROM {schema}.job WHERE state = 'completed'").await >= JOBS - 1,
        "the other runner did not get the jobs"
    );
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE attempt > 1").await, 0);
    jam.go_on.notify_one();
    slow.stop().await.unwrap();
}

#[support::test]
async fn what_was_fetched_ahead_is_not_started_under_a_lease_that_is_lost(database: Database) {
    let runner = on_one_slot(&database.client).lease(Duration::from_secs(1));
    let (jam, runner) = Jam::start(&database, runner).await;
    let lost = runner.id();
    let completed = "SELECT count(*) FROM {schema}.job WHERE state = 'completed'";
    // The results of all but the one that is stuck are recorded, so that the lost lease costs no more.
    eventually!(database.number(completed).await >= jam.begun_under(lost) - 1, "results are missing");
    database.execute("UPDATE {schema}.runner SET leased_until = now() - interval '1 s'").await;
    eventually!(database.number(completed).await >= JOBS, "jobs are missing");
    runner.stop().await.unwrap();
    let counted = format!("SELECT count(*) FROM {{schema}}.job WHERE worker = '{lost}'");
    assert_eq!(jam.begun_under(lost), database.number(&counted).await + 1);
}

#[support::test]
async fn more_concurrency_takes_effect_at_once_and_less_as_jobs_end(database: Database) {
    static GATE: Gate = Gate::closed();
    let (sender, mut started) = mpsc::unbounded_channel();
    let work = move |job: RunningJob<Task>| {
        let _ = sender.send(job.args.n);
        GATE.pass()
    };
    // Nothing but a freed slot makes it look again.
    let runner = database.runner().queue("default", 1).poll_interval(HOUR).worker(work).start().await.unwrap();
    database.client.insert_many((0..9).map(|n| Task { n })).await.unwrap();
    let mut next = async || next(&mut started).await;
    assert_eq!(next().await, 0);
    runner.set_concurrency("default", 4).unwrap();
    let mut more = [next().await, next().await, next().await];
    more.sort_unstable();
    assert_eq!(more, [1, 2, 3]);
    runner.set_concurrency("default", 2).unwrap();
    let running = "SELECT count(*) FROM {schema}.job WHERE state = 'running'";
    for (ended, still) in [(1, 3), (2, 2)] {
        GATE.open(1);
        database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", ended).await;
        assert_eq!(database.number(running).await, still);
    }
    GATE.open(1);
    assert_eq!(next().await, 4);
    for (queue, concurrency, said) in [("elsewhere", 1, "elsewhere"), ("default", 0, "at least 1")] {
        let error = runner.set_concurrency(queue, concurrency).unwrap_err();
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
    GATE.open(100);
    timeout(WAIT, runner.stop()).await.unwrap().unwrap();
}

#[support::test]
async fn many_runners_that_fetch_many_work_each_job_once(database: Database) {
    const JOBS: u32 = 20_000;
    database.client.insert_many((0..JOBS).map(|n| Task { n })).await.unwrap();
    static RAN: Mutex<BTreeMap<u32, u32>> = Mutex::new(BTreeMap::new());
    for _ in 0..4 {
        let work = async |job: RunningJob<Task>| *RAN.lock().unwrap().entry(job.args.n).or_default() += 1;
        database.start(database.runner().queue("default", 2_000).worker(work)).await;
    }
    let completed = "SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1";
    database.until(completed, i64::from(JOBS)).await;
    database.end().await;
    let ran = RAN.lock().unwrap().clone();
    assert!(ran.len() == JOBS as usize && ran.values().all(|times| *times == 1));
}
