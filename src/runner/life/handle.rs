//! A running runner, and how it stops.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::health::RunnerHealth;
use super::shutdown_signal::further_signal;
use crate::client::connections::time_limit;
use crate::error::{Error, Result};
use crate::period::format_duration;
use crate::runner::shared::Shared;
use crate::worker::StopReason;

/// A running runner. Dropping it lets the runner go on; [`RunnerHandle::stop`] ends it in order.
///
/// ```
/// # use serde_json::json;
/// # use uniqueue::{BoxError, Job, JobState, Runner, RunningJob, testing};
/// # #[derive(serde::Deserialize, serde::Serialize, Job)]
/// # #[job(kind = "ping")]
/// # struct Ping {}
/// # async fn ping(_: RunningJob<Ping>) {}
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # let database = testing::Database::new().await?;
/// # let client = database.client().clone();
/// let runner = Runner::new(client.clone()).queue("default", 4).worker(ping).start().await?;
/// println!("working as {}", runner.id());
///
/// // The machine is busy with something else: at most one job at a time from now on.
/// runner.set_concurrency("default", 1)?;
///
/// let (_, waited) = client.insert(Ping {}).wait(std::time::Duration::from_secs(10)).await?;
/// assert_eq!(waited.job().map(|job| job.state), Some(JobState::Completed));
///
/// // At the end of the program: what runs is finished, and every result is recorded.
/// runner.stop().await?;
/// # Ok(()) }
/// ```
#[must_use = "keep it, to stop the runner with"]
pub struct RunnerHandle {
    pub(in crate::runner) shared: Arc<Shared>,
    pub(in crate::runner) stop_timeout: Duration,
    pub(in crate::runner) producer: JoinHandle<()>,
    pub(in crate::runner) completer: JoinHandle<()>,
    pub(in crate::runner) heartbeat: JoinHandle<Result<()>>,
    /// Maintenance, and the storing of progress.
    pub(in crate::runner) background: TaskTracker,
    /// Stops the heartbeat and the storing of progress.
    pub(in crate::runner) closing: CancellationToken,
}

impl RunnerHandle {
    /// The runner's id: `runner.id`, and `job.worker` of its jobs. A runner that loses its lease
    /// goes on under a new one.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.shared.leases.current().id
    }

    /// The runner's health, for probes.
    #[must_use]
    pub fn health(&self) -> RunnerHealth {
        let Self { producer, completer, heartbeat, .. } = self;
        let parts = [producer.abort_handle(), completer.abort_handle(), heartbeat.abort_handle()];
        RunnerHealth { shared: Arc::clone(&self.shared), parts }
    }

    /// Changes how many jobs of a queue run at once in this runner. A higher number takes effect at once; a lower one as
    /// jobs end, of which none is stopped.
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
        self.shared.signals.freed.notify_one();
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
    /// Work that still runs after the [stop timeout](crate::Runner::stop_timeout) is told to stop
    /// ([`StopReason::Stopping`]), and dropped at its next `.await` after the
    /// [grace](crate::Runner::stop_grace). It is given back without using up the attempt. So jobs
    /// run no longer than the stop timeout and the grace. Recording their results takes as long as the database does, and
    /// no longer than a lease when it does not answer or refuses everything. After a quarter of a lease without an answer
    /// they are sent again over a new connection. Single results that it rejects take a statement or two each. These, and
    /// those of locked jobs, are waited for as long as is left of the stop timeout.
    /// Results that are not recorded by then are dropped, and their jobs rescued by another runner. A database that does
    /// not answer takes up to half a lease more, to delete the runner's row.
    ///
    /// If the process has used [`shutdown_signal`](crate::shutdown_signal), Ctrl-C or SIGTERM during the stop counts as the end of
    /// the stop timeout.
    ///
    /// Once begun it goes on to its end, also where the future is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database) when the runner's row could not be deleted. The runner then counts as
    /// alive until its lease runs out.
    pub async fn stop(self) -> Result<()> {
        // In a task of its own: a caller that drops this future would otherwise leave a runner behind that is stopping for
        // ever.
        self.stop_after(std::future::ready(())).await
    }

    /// Stops in order when `shutdown` resolves.
    pub(in crate::runner) async fn stop_after(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let stop = CancellationToken::new();
        let guard = stop.clone().drop_guard();
        let stopping = tokio::spawn(async move {
            stop.cancelled().await;
            self.stop_in_order().await
        });
        shutdown.await;
        drop(guard);
        match stopping.await {
            Ok(stopped) => stopped,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends, and the runner with it.
                Err(_) => Ok(()),
            },
        }
    }

    async fn stop_in_order(self) -> Result<()> {
        let Self { shared, stop_timeout, producer, completer, heartbeat, background, closing } = self;
        let Shared { options, connections, leases, runs, signals, tasks, .. } = &*shared;
        let began = Instant::now();
        signals.stopping.cancel();
        connections.hurry();
        let waited_for = runs.count();
        if waited_for > 0 {
            let jobs = if waited_for == 1 { "1 job".to_owned() } else { format!("{waited_for} jobs") };
            tracing::info!("waiting for {jobs}, up to {}", format_duration(stop_timeout));
        }
        // The clock runs while a fetch is under way, too, however long the database takes to answer it.
        let mut working = pin!(async {
            ended("producer", producer).await;
            tasks.attempts.close();
            tasks.attempts.wait().await;
        });
        let is_done = tokio::select! {
            biased;
            () = &mut working => true,
            () = tokio::time::sleep(stop_timeout) => {
                tracing::warn!("stop timeout reached: jobs that still run are given back");
                false
            }
            () = further_signal() => {
                tracing::warn!("another signal: jobs that still run are given back");
                false
            }
        };
        if !is_done {
            runs.stop_all(StopReason::Stopping);
            working.await;
        }
        // Every result is in the channel now; the completer ends when it has recorded them.
        signals.drained.cancel();
        ended("completer", last_results(&shared, completer)).await;
        tasks.set_aside.close();
        let left = stop_timeout.saturating_sub(began.elapsed()).max(options.stop_grace);
        if tokio::time::timeout(left, tasks.set_aside.wait()).await.is_err() {
            tracing::warn!(
                "stop timeout reached: results that the database rejects, or that wait for a lock, are dropped, and their jobs rescued"
            );
            leases.current().lost.cancel();
            tasks.set_aside.wait().await;
        }
        closing.cancel();
        background.close();
        // At once, since each waits for a database that may not answer.
        let (removed, (), ()) = tokio::join!(ended("heartbeat", heartbeat), connections.close(), background.wait());
        let removed = removed.unwrap_or(Ok(()));
        // The results are recorded, so a database that does not take the counts only loses these.
        let writing = time_limit::within(options.lease / 4, shared.client.write_history());
        if let Err(error) = writing.await {
            tracing::warn!(%error, "history of the last minute not written");
        }
        tracing::info!("runner stopped");
        removed
    }
}

/// Waits for the completer, as long as it gets on: as results are recorded, or set aside. When none is for a whole lease,
/// the results are dropped.
async fn last_results(shared: &Shared, mut completer: JoinHandle<()>) -> Result<(), JoinError> {
    let unrecorded = || shared.runs.count().saturating_sub(shared.tasks.set_aside.len());
    let mut left = unrecorded();
    loop {
        if let Ok(ended) = tokio::time::timeout(shared.options.lease, &mut completer).await {
            return ended;
        }
        let before = std::mem::replace(&mut left, unrecorded());
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
