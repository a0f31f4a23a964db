//! Suspects: jobs whose runner died while it had them are fetched few at a time, and alone after their second crash.

use support::prelude::*;

/// The started jobs, and the permission to end.
struct Jobs {
    database: Database,
    started: mpsc::UnboundedReceiver<u32>,
    gate: &'static Gate,
    runner: RunnerHandle,
}

impl Jobs {
    /// A runner with many slots, whose jobs wait for leave. Of the jobs with these numbers each has crashed so often.
    async fn new(jobs: &[(u32, i16)], gate: &'static Gate) -> Self {
        let database = Database::new().await;
        for (n, crashes) in jobs {
            let id = database.client.insert(Task { n: *n }).await.unwrap().id();
            database.execute(&format!("UPDATE {{schema}}.job SET crashes = {crashes} WHERE id = '{id}'")).await;
        }
        let (starts, started) = mpsc::unbounded_channel();
        let work = move |job: RunningJob<Task>| {
            let _ = starts.send(job.args.n);
            gate.pass()
        };
        let runner = quick(&database.client).worker(work).stop_timeout(Duration::ZERO).stop_grace(Duration::ZERO);
        Self { database, started, gate, runner: runner.start().await.unwrap() }
    }

    async fn insert(&self, n: u32) {
        self.database.client.insert(Task { n }).await.unwrap();
    }

    /// The next jobs that start, by number.
    async fn start(&mut self, count: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        for _ in 0..count {
            let next = timeout(WAIT, self.started.recv()).await;
            numbers.push(next.unwrap_or_else(|_| panic!("{numbers:?} started, and no more")).unwrap());
        }
        numbers.sort_unstable();
        numbers
    }

    fn end(&self, count: usize) {
        self.gate.open(count);
    }
}

#[tokio::test]
async fn suspects_start_one_at_a_time_and_then_twice_as_many_as_end_well() {
    static GATE: Gate = Gate::closed();
    let mut jobs = Jobs::new(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (8, 0)], &GATE).await;
    assert_eq!(jobs.start(2).await, [1, 8], "a suspect takes one slot, other jobs the others");
    // A later job starts: the slots are there, and the suspects wait.
    jobs.insert(9).await;
    assert_eq!(jobs.start(1).await, [9]);
    jobs.end(3);
    assert_eq!(jobs.start(2).await, [2, 3]);
    jobs.insert(10).await;
    assert_eq!(jobs.start(1).await, [10]);
    jobs.end(3);
    assert_eq!(jobs.start(4).await, [4, 5, 6, 7]);
    assert!(jobs.started.is_empty());
    jobs.runner.stop().await.unwrap();
}

#[tokio::test]
async fn a_job_that_crashed_twice_runs_alone() {
    static GATE: Gate = Gate::closed();
    let mut jobs = Jobs::new(&[(1, 2), (2, 0), (3, 2)], &GATE).await;
    assert_eq!(jobs.start(1).await, [2], "the fetch that finds the suspect takes the others");
    jobs.insert(4).await;
    jobs.end(1);
    assert_eq!(jobs.start(1).await, [1], "nothing is fetched before it");
    jobs.insert(5).await;
    assert_eq!(jobs.database.number("SELECT count(*) FROM {schema}.job WHERE state = 'running'").await, 1);
    assert!(jobs.started.is_empty());
    jobs.end(1);
    let mut after = jobs.start(2).await;
    jobs.end(2);
    after.extend(jobs.start(1).await);
    after.sort_unstable();
    assert_eq!(after, [3, 4, 5]);
    jobs.runner.stop().await.unwrap();
}

#[tokio::test]
async fn a_slow_job_does_not_keep_a_suspect_that_is_to_run_alone_waiting_for_long() {
    static GATE: Gate = Gate::closed();
    let mut jobs = Jobs::new(&[(1, 2), (2, 0)], &GATE).await;
    assert_eq!(jobs.start(1).await, [2]);
    assert_eq!(jobs.start(1).await, [1]);
    jobs.runner.stop().await.unwrap();
}

#[tokio::test]
async fn a_suspect_that_is_given_back_stays_one_without_a_crash_more() {
    static GATE: Gate = Gate::closed();
    let mut jobs = Jobs::new(&[(1, 1)], &GATE).await;
    assert_eq!(jobs.start(1).await, [1]);
    jobs.runner.stop().await.unwrap();
    let row = "SELECT format('%s %s %s', state, attempt, crashes) FROM {schema}.job";
    assert_eq!(jobs.database.text(row).await, "available 0 1");
}
