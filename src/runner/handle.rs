//! A running runner, and how it stops.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::Shared;
use crate::error::{Error, Result};
use crate::worker::StopReason;

/// A running runner. Dropping it lets the runner go on; [`RunnerHandle::stop`] ends it in order.
#[must_use = "keep it, to stop the runner with"]
pub struct RunnerHandle {
    shared: Arc<Shared>,
    producer: JoinHandle<()>,
    completer: JoinHandle<()>,
    heartbeat: JoinHandle<Result<()>>,
    background: TaskTracker,
    closing: CancellationToken,
    stop_timeout: Duration,
}

impl RunnerHandle {
    pub(super) const fn new(
        shared: Arc<Shared>,
        producer: JoinHandle<()>,
        completer: JoinHandle<()>,
        heartbeat: JoinHandle<Result<()>>,
        background: TaskTracker,
        closing: CancellationToken,
        stop_timeout: Duration,
    ) -> Self {
        Self { shared, producer, completer, heartbeat, background, closing, stop_timeout }
    }

    /// The runner's id: `runner.id`, and `job.worker` of its jobs. A runner that loses its lease
    /// goes on under a new one.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.shared.leases.current().id
    }

    /// Changes how many jobs of a queue run at once in this runner. More take effect at once; fewer
    /// as jobs end, of which none is stopped.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] for a queue that this runner does not work, and for a concurrency of 0.
    pub fn set_concurrency(&self, queue: &str, concurrency: usize) -> Result<()> {
        let invalid = |option, problem, given| Err(Error::InvalidOption { option, problem, given });
        if concurrency == 0 {
            return invalid("concurrency", "must be at least 1", concurrency.to_string());
        }
        let Some(slots) = self.shared.queues.iter().find(|slots| slots.name.as_str() == queue) else {
            return invalid("queue", "this runner does not work it", queue.to_owned());
        };
        slots.set_concurrency(concurrency);
        self.shared.freed.notify_one();
        Ok(())
    }

    /// Stops in order, as [`RunnerHandle::stop`] does, but with a stop timeout of its own: zero tells
    /// what runs to stop at once.
    ///
    /// # Errors
    ///
    /// As for [`RunnerHandle::stop`].
    pub async fn stop_within(mut self, stop_timeout: Duration) -> Result<()> {
        self.stop_timeout = stop_timeout;
        self.stop().await
    }

    /// Stops in order: fetches no more, waits for what runs, records every result.
    ///
    /// What still runs after the [stop timeout](crate::Runner::stop_timeout) is told to stop
    /// ([`StopReason::Stopping`]), and dropped at its next `.await` after the
    /// [grace](crate::Runner::stop_grace). It is given back without using up the attempt. So jobs
    /// run no longer than the stop timeout and the grace; recording their results takes as long as
    /// the database does, and no longer than a lease when it does not answer or says no to everything. Single
    /// results that it refuses take it a statement or two each; these, and those of jobs that somebody has locked, are
    /// waited for as long as is left of the stop timeout. What is not recorded by then is dropped, and the jobs are
    /// rescued by another runner. A database that does not answer takes up to a quarter of a lease more, to close what is
    /// open.
    ///
    /// Once begun it goes on to its end, also where the future is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database) when the runner's row could not be taken out; it
    /// then counts as alive until its lease runs out.
    pub async fn stop(self) -> Result<()> {
        // In a task of its own: without it, whoever gives up waiting for this would leave a runner behind that is stopping
        // for ever, and that nobody can end.
        match tokio::spawn(self.stop_in_order()).await {
            Ok(stopped) => stopped,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends, and the runner with it.
                Err(_) => Ok(()),
            },
        }
    }

    async fn stop_in_order(self) -> Result<()> {
        let Self { shared, producer, completer, heartbeat, background, closing, stop_timeout } = self;
        let began = Instant::now();
        shared.stopping.cancel();
        // The clock runs while a fetch is under way, too, however long the database takes to answer it.
        let mut working = pin!(async {
            ended("producer", producer).await;
            shared.attempts.close();
            shared.attempts.wait().await;
        });
        if tokio::time::timeout(stop_timeout, &mut working).await.is_err() {
            tracing::warn!("stop timeout reached: jobs that still run are given back");
            shared.stop_all(StopReason::Stopping);
            working.await;
        }
        // Every result is in the channel now; the completer ends when it has recorded them.
        shared.drained.cancel();
        ended("completer", last_results(&shared, completer)).await;
        shared.aside.close();
        let left = stop_timeout.saturating_sub(began.elapsed()).max(shared.stop_grace);
        if tokio::time::timeout(left, shared.aside.wait()).await.is_err() {
            tracing::warn!(
                "stop timeout reached: results that the database refuses, or that wait for somebody's lock, are dropped, and their jobs rescued"
            );
            shared.leases.current().lost.cancel();
            shared.aside.wait().await;
        }
        closing.cancel();
        background.close();
        // At once, since each waits for a database that may not answer.
        let (removed, (), ()) = tokio::join!(ended("heartbeat", heartbeat), shared.desk.close(), background.wait());
        let removed = removed.unwrap_or(Ok(()));
        tracing::info!("runner stopped");
        removed
    }
}

/// A runner that stops in order when this is dropped.
pub(super) struct Running {
    handle: Option<RunnerHandle>,
    /// Where it runs: whoever drops this may be elsewhere.
    runtime: Handle,
}

impl Running {
    pub(super) fn new(handle: RunnerHandle) -> Self {
        Self { handle: Some(handle), runtime: Handle::current() }
    }

    pub(super) async fn stop(mut self) -> Result<()> {
        match self.handle.take() {
            Some(handle) => handle.stop().await,
            None => Ok(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.runtime.spawn(handle.stop_in_order());
        }
    }
}

/// Waits for the completer, as long as it gets on: as results are recorded, or go aside. A database with which it does not
/// for a whole lease is not waited for.
async fn last_results(shared: &Shared, mut completer: JoinHandle<()>) -> Result<(), JoinError> {
    let in_line = || shared.jobs_in_hand().len().saturating_sub(shared.aside.len());
    let mut left = in_line();
    loop {
        if let Ok(ended) = tokio::time::timeout(shared.leases.term, &mut completer).await {
            return ended;
        }
        let before = std::mem::replace(&mut left, in_line());
        if left >= before {
            tracing::error!(results = left, "the database takes no results: they are dropped, and their jobs rescued");
            shared.leases.current().lost.cancel();
        }
    }
}

/// Waits for a part of the runner. `None`: it panicked.
async fn ended<T>(part: &str, task: impl Future<Output = Result<T, JoinError>>) -> Option<T> {
    let ended = task.await;
    if let Err(error) = &ended {
        tracing::error!(part, %error, "a part of the runner panicked");
    }
    ended.ok()
}

impl std::fmt::Debug for RunnerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunnerHandle").field("id", &self.id()).finish_non_exhaustive()
    }
}
