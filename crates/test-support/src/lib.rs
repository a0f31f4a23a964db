//! What the tests share: a database of its own for every test, on one embedded cluster for the whole run.

#![allow(missing_docs, clippy::expect_used, clippy::missing_panics_doc, clippy::panic, clippy::unwrap_used)]

pub mod bouncer;
pub mod by_url;
mod catalog;
pub mod clients;
pub mod cluster;
mod database;
pub mod dice;
mod eventually;
mod frames;
mod keeper;
mod log;
pub mod mutations;
pub mod odd;
pub mod prelude;
pub mod process;
pub mod proxy;
mod seen;
mod server;
mod statements;
mod template;
pub mod tools;
pub mod work;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::{PgPool, Postgres, Transaction};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Barrier, Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use uniqueue::{Client, Inserted, Job, NewJob, RetryPolicy, Runner, RunningJob, Worker};

pub use database::{Database, pool};
pub use eventually::{HANGS, block, pause};
pub use log::log_as;
pub use seen::{Trace, attribute};
pub use server::{directory, url};
pub use statements::{counting_statements, statements_of, until_sent};
pub use uniqueue_test_macros::test;

/// The longest that a test waits for something that should happen at once.
pub const WAIT: Duration = Duration::from_secs(20);

pub const SECOND: Duration = Duration::from_secs(1);
pub const MINUTE: Duration = Duration::from_secs(60);
pub const HOUR: Duration = Duration::from_secs(3_600);
pub const DAY: Duration = Duration::from_secs(86_400);

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "task")]
pub struct Task {
    pub n: u32,
}

/// A runner that loses no time.
pub fn quick(client: &Client) -> Runner {
    Runner::new(client.clone())
        .queue("default", 10)
        .retry_policy(RetryPolicy::fixed(Duration::ZERO))
        .promote_interval(Duration::from_millis(20))
}

/// Work that is done at once.
pub async fn at_once(_: RunningJob<Task>) {}

/// Commits a transaction, or rolls it back.
pub async fn end(transaction: Transaction<'_, Postgres>, commits: bool) {
    match commits {
        true => transaction.commit().await.expect("a commit"),
        false => transaction.rollback().await.expect("a rollback"),
    }
}

/// Where the work of a test waits. A test has it as a `static`, so that its workers need no clone.
pub struct Gate {
    begun: Semaphore,
    go_on: Semaphore,
}

impl Gate {
    pub const fn closed() -> Self {
        Self { begun: Semaphore::const_new(0), go_on: Semaphore::const_new(0) }
    }

    /// Says that work has begun.
    pub fn begin(&self) {
        self.begun.add_permits(1);
    }

    /// Says that work has begun, and waits until it may go on.
    pub async fn pass(&self) {
        self.begin();
        self.go_on.acquire().await.unwrap().forget();
    }

    /// Waits until so much work has begun since the last call.
    pub async fn begun(&self, works: u32) {
        timeout(WAIT, self.begun.acquire_many(works)).await.expect("work begins").unwrap().forget();
    }

    /// Lets so much work go on.
    pub fn open(&self, works: usize) {
        self.go_on.add_permits(works);
    }
}

/// Work that says that it began, and ends when it may.
pub fn held_up() -> (impl Worker<Task> + Clone, Arc<Notify>, Arc<Semaphore>) {
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let signals = (started.clone(), go_on.clone());
    let work = move |_: RunningJob<Task>| {
        let (started, go_on) = signals.clone();
        async move {
            started.notify_one();
            go_on.acquire().await.unwrap().forget();
        }
    };
    (work, started, go_on)
}

/// Work that tells something of each job.
pub fn telling<T: Send + 'static>(
    tell: impl Fn(&RunningJob<Task>) -> T + Send + Sync + 'static,
) -> (impl Worker<Task>, UnboundedReceiver<T>) {
    let (sender, receiver) = unbounded_channel();
    let work = move |job: RunningJob<Task>| {
        let _ = sender.send(tell(&job));
        std::future::ready(())
    };
    (work, receiver)
}

/// Waits for the receiver's next value. Panics if none comes within [`WAIT`].
pub async fn next<T>(receiver: &mut UnboundedReceiver<T>) -> T {
    timeout(WAIT, receiver.recv()).await.expect("something in time").expect("a sender")
}

/// Spawns an insert, which may have to wait.
pub fn inserting(client: &Client, new: NewJob) -> JoinHandle<uniqueue::Result<Inserted>> {
    let client = client.clone();
    tokio::spawn(async move { client.insert(new).await })
}

/// Spawns futures that begin at the same moment. Returns their outputs, in order.
pub async fn together<F>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let futures: Vec<_> = futures.into_iter().collect();
    let barrier = Arc::new(Barrier::new(futures.len()));
    let behind = |future: F| {
        let barrier = barrier.clone();
        tokio::spawn(async move {
            barrier.wait().await;
            future.await
        })
    };
    let spawned: Vec<_> = futures.into_iter().map(behind).collect();
    let mut outputs = Vec::with_capacity(spawned.len());
    for task in spawned {
        outputs.push(task.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())));
    }
    outputs
}

/// Leaves an open transaction in a pool of one connection, as a dropped future of sqlx's `begin` does.
pub async fn leave_open(pool: &PgPool) {
    let mut connection = pool.acquire().await.unwrap();
    loop {
        let mut begin = Box::pin(sqlx::Connection::begin(&mut *connection));
        // Once in a while the answer is there at once, and there is nothing to drop.
        if !poll_fn(|context| Poll::Ready(begin.as_mut().poll(context).is_ready())).await {
            break;
        }
    }
}

/// How long, or how often, a test tries what chance decides: in full where `UNIQUEUE_SOAK` is set, as it is in CI.
pub fn soak<T>(usual: T, in_full: T) -> T {
    if std::env::var_os("UNIQUEUE_SOAK").is_some_and(|value| !value.is_empty()) { in_full } else { usual }
}

/// The argument of the SQL function `_fetch_jobs` for queues with these numbers of free slots.
pub fn wanted(queues: &[(&str, i64)]) -> String {
    let queues = queues.iter().map(|(name, free)| {
        json!({"name": name, "free": free, "idle": free, "after_group": "", "visits": 10_000, "freed": []})
    });
    Value::Array(queues.collect()).to_string()
}

/// A job without args.
pub fn job(kind: &str) -> NewJob {
    NewJob::new(kind, &json!({}))
}
