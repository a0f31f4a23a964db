//! The concurrency of a queue: in one runner it can be changed while it runs, and many runners work one queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use uniqueue::{Error, Runner, RunningJob};

use super::Task;
use support::{Database, WAIT};

#[support::test]
async fn more_concurrency_takes_effect_at_once_and_less_as_jobs_end(database: Database) {
    let (sender, mut started) = mpsc::unbounded_channel();
    let leave = Arc::new(Semaphore::new(0));
    let gate = leave.clone();
    let work = move |job: RunningJob<Task>| {
        let (sender, gate) = (sender.clone(), gate.clone());
        async move {
            let _ = sender.send(job.args.n);
            gate.acquire().await.unwrap().forget();
        }
    };
    // Nothing but a freed slot makes it look again.
    let hour = Duration::from_secs(3600);
    let runner = Runner::new(database.client.clone()).queue("default", 1).poll_interval(hour).worker(work);
    let runner = runner.start().await.unwrap();
    database.client.insert_many((0..9).map(|n| Task { n })).await.unwrap();
    let mut next = async || timeout(WAIT, started.recv()).await.expect("a job starts").unwrap();
    assert_eq!(next().await, 0);
    runner.set_concurrency("default", 4).unwrap();
    let mut more = [next().await, next().await, next().await];
    more.sort_unstable();
    assert_eq!(more, [1, 2, 3]);
    runner.set_concurrency("default", 2).unwrap();
    let running = "SELECT count(*) FROM {schema}.job WHERE state = 'running'";
    for (ended, still) in [(1, 3), (2, 2)] {
        leave.add_permits(1);
        database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", ended).await;
        assert_eq!(database.number(running).await, still);
    }
    leave.add_permits(1);
    assert_eq!(next().await, 4);
    for (queue, concurrency, said) in [("elsewhere", 1, "elsewhere"), ("default", 0, "at least 1")] {
        let error = runner.set_concurrency(queue, concurrency).unwrap_err();
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
    leave.add_permits(100);
    timeout(WAIT, runner.stop()).await.unwrap().unwrap();
}

#[tokio::test]
async fn many_runners_that_fetch_many_work_each_job_once() {
    const JOBS: u32 = 20_000;
    let database = Database::new().await;
    database.client.insert_many((0..JOBS).map(|n| Task { n })).await.unwrap();
    let ran: Arc<Mutex<HashMap<u32, u32>>> = Arc::default();
    let mut runners = Vec::new();
    for _ in 0..4 {
        let ran = Arc::clone(&ran);
        let work = move |job: RunningJob<Task>| {
            *ran.lock().unwrap().entry(job.args.n).or_default() += 1;
            async {}
        };
        let runner = Runner::new(database.client.clone()).queue("default", 2_000).worker(work);
        runners.push(runner.start().await.unwrap());
    }
    let completed = "SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1";
    database.until(completed, i64::from(JOBS)).await;
    for runner in runners {
        runner.stop().await.unwrap();
    }
    let ran = ran.lock().unwrap();
    assert!(ran.len() == JOBS as usize && ran.values().all(|times| *times == 1));
}
