//! Pushes and fetches a second beside the native client: `cargo test --release -p uniqueue-faktory speed -- --ignored --nocapture`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::json;
use tokio::task::JoinSet;
use uniqueue::{JobResult, NewJob};

use crate::support::{Server, job};

const CONNECTIONS: usize = 16;
const JOBS: usize = 8_000;

/// Runs something on each connection until all jobs are done. Returns how many a second.
async fn rate<F: Future<Output = ()> + Send + 'static>(mut each: impl FnMut(usize, Arc<AtomicUsize>) -> F) -> f64 {
    let (mut tasks, left, began) = (JoinSet::new(), Arc::new(AtomicUsize::new(JOBS)), Instant::now());
    for number in 0..CONNECTIONS {
        tasks.spawn(each(number, Arc::clone(&left)));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    JOBS as f64 / began.elapsed().as_secs_f64()
}

fn one_more(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn pushes_and_results_a_second() {
    let server = Arc::new(Server::start().await);
    let client = server.database.client.clone();
    let native_push = rate(|_, left| {
        let client = client.clone();
        async move {
            while one_more(&left) {
                client.insert(NewJob::new("t", &json!([])).queue("native")).await.unwrap();
            }
        }
    })
    .await;
    let native_work = rate(|number, left| {
        let client = client.clone();
        async move {
            while one_more(&left) {
                let mut jobs = Vec::new();
                while jobs.is_empty() {
                    jobs = client.fetch_jobs(["native"], format!("w{number}")).await.unwrap();
                }
                client.finish_jobs(jobs.iter().map(|job| JobResult::complete(job.run))).await.unwrap();
            }
        }
    })
    .await;
    let push = rate(|number, left| {
        let server = Arc::clone(&server);
        async move {
            let mut client = server.client().await;
            while one_more(&left) {
                assert_eq!(
                    client.push(job(&format!("job-{number}-{}", left.load(Ordering::Relaxed)), "t")).await,
                    "OK"
                );
            }
        }
    })
    .await;
    let work = rate(|_, left| {
        let server = Arc::clone(&server);
        async move {
            let mut worker = server.worker("w").await;
            while one_more(&left) {
                let jid = worker.fetch("default").await["jid"].as_str().unwrap().to_owned();
                assert_eq!(worker.ack(&jid).await, "OK");
            }
        }
    })
    .await;
    println!("pushes a second: native {native_push:.0}, Faktory {push:.0}");
    println!("fetched and acknowledged a second, one at a time: native {native_work:.0}, Faktory {work:.0}");
    let done = "SELECT count(*) FROM {schema}.job WHERE state = 'completed'";
    assert_eq!(server.database.number(done).await, 2 * JOBS as i64);
}
