//! The `faktory` crate, as an application uses it.

use std::io;

use faktory::mutate::{Filter, JobSet};
use faktory::{Client, Job, JobBuilder, WorkerBuilder, WorkerId};
use test_support::prelude::*;
use tokio::sync::oneshot;

use crate::support::Server;

async fn connect(server: &Server) -> Client {
    Client::connect_to(&format!("tcp://{}", server.address)).await.unwrap()
}

/// It ends its connections by blocking the thread.
macro_rules! test {
    ($(async fn $name:ident() $body:block)+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $name() $body)+
    };
}

test! {
    async fn its_worker_works_and_fails_jobs() {
        let server = Server::new().await;
        let mut client = connect(&server).await;
        let (worked, mut seen) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let worked = Arc::new(worked);
        let mut worker = WorkerBuilder::<io::Error>::default()
            .wid(WorkerId::new("rust-worker"))
            .workers(4)
            .register_fn("sum", move |job: Job| {
                let worked = Arc::clone(&worked);
                async move {
                    worked.send(job.args().iter().filter_map(serde_json::Value::as_i64).sum::<i64>()).map_err(io::Error::other)
                }
            })
            .register_fn("bad", |_: Job| async { Err::<(), _>(io::Error::other("no luck")) })
            .with_graceful_shutdown(async move { drop(stopped.await) })
            .connect_to(&format!("tcp://{}", server.address))
            .await
            .unwrap();
        let running = tokio::spawn(async move { worker.run(&["default", "other"]).await });
        client.enqueue(Job::new("bad", Vec::<i64>::new())).await.unwrap();
        let jobs = (0..50_i32).map(|number| Job::new("sum", vec![number, 1]).on_queue(["default", "other"][number as usize % 2]));
        let (pushed, refused) = client.enqueue_many(jobs).await.unwrap();
        assert!(pushed == 50 && refused.is_none());
        let mut sums = Vec::new();
        while sums.len() < 50 {
            sums.push(timeout(WAIT, seen.recv()).await.unwrap().unwrap());
        }
        sums.sort_unstable();
        assert_eq!(sums, (1..=50).collect::<Vec<_>>());
        server.database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 50).await;
        let failed = server.database.until_state(server.job("bad").await.id, JobState::Retryable).await;
        assert_eq!((failed.errors[0].error.as_str(), failed.errors[0].error_type.as_deref()), ("no luck", Some("unknown")));
        eventually!(
            let data = client.current_info().await.unwrap().data;
            (data.total_processed, data.total_failures) == (51, 1), "{data:?}"
        );
        client.requeue(JobSet::Retries, Filter::from_kind("bad")).await.unwrap();
        server.database.until("SELECT count(*) FROM {schema}.job WHERE kind = 'bad' AND jsonb_array_length(errors) = 2", 1).await;
        // The row is there before the client has the answer to its FAIL.
        eventually!(
            let data = client.current_info().await.unwrap().data;
            (data.total_processed, data.total_failures) == (52, 2), "{data:?}"
        );
        drop(stop);
        assert_eq!(timeout(WAIT, running).await.unwrap().unwrap().unwrap().workers_still_running, 0);
    }

    async fn its_unique_jobs_are_exact_and_expire() {
        let server = Server::new().await;
        let mut client = connect(&server).await;
        let unique = || JobBuilder::new("order").args(vec!["ISBN"]).add_to_custom_data("unique_for", 600).build();
        client.enqueue(unique()).await.unwrap();
        let error = client.enqueue(unique()).await.unwrap_err();
        assert!(format!("{error:?}").contains("NOTUNIQUE Job not unique"), "{error:?}");
        server.database.pass(Duration::from_secs(600)).await;
        client.enqueue(unique()).await.unwrap();
    }

    async fn its_queues_are_paused_and_its_passwords_checked() {
        let server = Server::with(|it| it.user("rust", "correct-horse-battery", uniqueue_faktory::Rights::All)).await;
        let url = |password: &str| format!("tcp://:{password}@{}", server.address);
        assert!(Client::connect_to(&format!("tcp://{}", server.address)).await.is_err());
        assert!(Client::connect_to(&url("wrong")).await.is_err());
        let mut client = Client::connect_to(&url("correct-horse-battery")).await.unwrap();
        client.enqueue(Job::new("t", vec![1])).await.unwrap();
        client.queue_pause(&["default"]).await.unwrap();
        assert_eq!(server.database.number("SELECT count(*) FROM {schema}.queue WHERE paused_at IS NOT NULL").await, 1);
        client.queue_resume(&["default"]).await.unwrap();
        client.queue_remove(&["default"]).await.unwrap();
        assert_eq!(server.job("t").await.state, JobState::Cancelled);
    }
}
