//! Setting a runner up.

use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::completer::Ended;
use super::control::Control;
use super::desk::Desk;
use super::handle::{RunnerHandle, Running};
use super::keeping::Keeping;
use super::lease::{Lease, Leases};
use super::slots::QueueSlots;
use super::track::Tracks;
use super::upkeep::Upkeep;
use super::{Shared, completer, heartbeat, panics, pooler, producer, progress};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::ident::QueueName;
use crate::job::Job;
use crate::maintenance::{Holder, SharedConnection};
use crate::metrics::{self, RunnerMeter};
use crate::notify::Line;
use crate::retry::RetryPolicy;
use crate::store::RunnerRow;
use crate::worker::{AnyMiddleware, Registry, States, Worker, WorkerOptions};

/// A runner to be: its queues, its workers and its habits.
///
/// ```no_run
/// # use serde::{Deserialize, Serialize};
/// # use uniqueue::{Client, Job, Runner, RunningJob, shutdown_signal};
/// # #[derive(Serialize, Deserialize, Job)]
/// # #[job(kind = "email.send", queue = "emails")]
/// # struct SendEmail { to: String }
/// async fn send_email(job: RunningJob<SendEmail>) {
///     println!("to {}", job.args.to);
/// }
///
/// # async fn run(client: Client) -> uniqueue::Result<()> {
/// Runner::new(client)
///     .queue("emails", 20)
///     .worker(send_email)
///     .run_until(shutdown_signal())
///     .await
/// # }
/// ```
#[must_use = "a runner does nothing until it is started"]
pub struct Runner {
    client: Client,
    name: Option<String>,
    queues: Vec<(String, usize)>,
    pub(super) workers: Registry,
    pub(super) states: States,
    pub(super) middleware: Vec<Arc<dyn AnyMiddleware>>,
    retry_policy: RetryPolicy,
    timeout: Option<Duration>,
    poll_interval: Duration,
    pub(super) upkeep: Upkeep,
    lease: Duration,
    stop_timeout: Duration,
    stop_grace: Duration,
    is_listening: bool,
}

/// No setting is longer, so that there is always an instant that is so far away: a hundred years.
pub(super) const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Runner {
    /// A runner without queues and workers.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            name: None,
            queues: Vec::new(),
            workers: Registry::default(),
            states: States::default(),
            middleware: Vec::new(),
            retry_policy: RetryPolicy::default(),
            timeout: None,
            poll_interval: Duration::from_secs(1),
            upkeep: Upkeep::default(),
            lease: Duration::from_secs(20),
            stop_timeout: Duration::from_secs(25),
            stop_grace: Duration::from_secs(1),
            is_listening: true,
        }
    }

    /// Works a queue, at most this many of its jobs at once in this runner.
    pub fn queue(mut self, name: impl Into<String>, concurrency: usize) -> Self {
        self.queues.push((name.into(), concurrency));
        self
    }

    /// Works jobs of one kind with a [`Worker`] or an async function. Jobs of kinds without a
    /// worker here are left to other runners.
    pub fn worker<J: Job>(self, worker: impl Worker<J>) -> Self {
        self.worker_with(worker, WorkerOptions::new())
    }

    /// Like [`Runner::worker`], with a timeout or a retry policy for this kind.
    pub fn worker_with<J: Job>(mut self, worker: impl Worker<J>, options: WorkerOptions) -> Self {
        self.workers.add(worker, options);
        self
    }

    /// What the runner is called in the table `runner`. Default: `uniqueue` and the process id.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// When failed jobs try again, unless their worker says otherwise. Default: exponential, from
    /// one second to an hour.
    pub fn retry_policy(mut self, retry_policy: RetryPolicy) -> Self {
        self.retry_policy = retry_policy;
        self
    }

    /// How long a job may run, unless its worker says otherwise ([`Worker::timeout`]); at least 1 ms. `Duration::MAX`: as
    /// long as it likes.
    /// Default: as long as it likes, since nobody but the application knows how long its work takes,
    /// and a runner that died is noticed by its lease.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How often an idle runner looks for jobs that no notification told of. Default: 1 s;
    /// at least 1 ms, at most 100 years, as which longer ones count.
    pub fn poll_interval(mut self, poll_interval: Duration) -> Self {
        self.poll_interval = poll_interval.min(LONGEST);
        self
    }

    /// Never listens and never asks to be notified: polling is all. For PgBouncer in transaction
    /// mode, where LISTEN succeeds and never fires.
    pub fn poll_only(mut self) -> Self {
        self.is_listening = false;
        self
    }

    /// How long the runner counts as alive after its last heartbeat; it sends four a term. The
    /// jobs of a runner that died are back when its term is over, as soon as another runner looks:
    /// at the latest half a term, or 10 s, later. Default: 20 s; at least 1 s, at most 100 years, as which longer
    /// ones count.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.min(LONGEST);
        self
    }

    /// How long a stop waits for running jobs before it tells them to stop; those that still run
    /// after the [`stop_grace`](Runner::stop_grace) are given back, without using up their attempt.
    /// Default: 25 s, so that all of it fits into the 30 s after which Kubernetes kills a process. At most 100 years,
    /// as which longer ones count.
    pub fn stop_timeout(mut self, stop_timeout: Duration) -> Self {
        self.stop_timeout = stop_timeout.min(LONGEST);
        self
    }

    /// How long work may go on after it was told to stop ([`RunningJob::stopped`]): to clean up, or
    /// to finish after all. Then it is dropped at its next `.await`. Default: 1 s, which is enough
    /// for a clean-up nearby, and short enough that a cancelled job frees its slot soon. Zero drops
    /// at once; at most 100 years, as which longer ones count. When the lease is lost there is no grace: the job may be
    /// running elsewhere.
    ///
    /// [`RunningJob::stopped`]: crate::RunningJob::stopped
    pub fn stop_grace(mut self, stop_grace: Duration) -> Self {
        self.stop_grace = stop_grace.min(LONGEST);
        self
    }

    /// The client that the runner works with.
    #[cfg(feature = "testing")]
    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// Defines the runner's periodic jobs, enters it in the database and makes what its parts share. Nothing runs yet;
    /// the results of attempts come out of the receiver, and the line is the heartbeat's.
    pub(super) async fn enter(&self) -> Result<(Arc<Shared>, mpsc::UnboundedReceiver<Ended>, Line)> {
        // A runner that makes no sense must not have defined anything.
        let queues = self.check()?;
        metrics::describe();
        self.client.check_schema().await?;
        self.upkeep.define(&self.client).await?;
        panics::remember_places();
        let connect_options = self.connect_options();
        let mut desk = Desk::new(connect_options.clone(), self.lease);
        // Before anything listens.
        let has_sessions = pooler::check(&desk, self.client.statements(), self.is_listening).await?;
        let mut line = match self.is_listening {
            true => Line::listening(connect_options, self.client.schema()),
            false => Line::deaf(connect_options),
        };
        if has_sessions {
            desk.own_sessions().await?;
            line.end_after(heartbeat::longest_statement(self.lease));
        }
        let name = self.name.clone().unwrap_or_else(|| format!("uniqueue {}", std::process::id()));
        let kinds = self.workers.kinds();
        let row = RunnerRow {
            name,
            queues: queues.iter().map(|queue| queue.name.to_string()).collect(),
            kinds: kinds.clone(),
            retention: self.upkeep.retention,
        };
        let connection = line.connection().await?;
        let (lease, said) = Lease::take(connection, self.client.statements(), &row, self.lease).await?;
        let (ended, results) = mpsc::unbounded_channel();
        let tracked: Vec<_> = queues.iter().map(|queue| queue.name.clone()).collect();
        let shared = Arc::new(Shared {
            desk,
            leases: Leases::new(lease, row, self.lease),
            queues,
            keeping: Keeping::new(self.upkeep.retention, said),
            tracks: Tracks::new(&kinds, &tracked),
            meter: RunnerMeter::new(tracked.iter()),
            kinds,
            in_hand: Mutex::default(),
            reports: Arc::default(),
            control: Control::default(),
            workers: self.workers.layered(&self.middleware),
            states: Arc::new(self.states.clone()),
            retry_policy: self.retry_policy,
            timeout: self.timeout,
            stop_grace: self.stop_grace,
            poll_interval: self.poll_interval,
            is_listening: self.is_listening,
            wake: Notify::new(),
            freed: Notify::new(),
            stopping: CancellationToken::new(),
            drained: CancellationToken::new(),
            ended,
            is_completer_waiting: AtomicBool::new(false),
            is_held_up: AtomicBool::new(false),
            aside: TaskTracker::new(),
            aside_turn: Semaphore::new(1),
            attempts: TaskTracker::new(),
            client: self.client.clone(),
        });
        Ok((shared, results, line))
    }

    /// For the connections that are not the application's to use up: the line, maintenance's, and the
    /// desk's. A slow maintenance statement must not cost the lease, so these are apart.
    fn connect_options(&self) -> PgConnectOptions {
        (*self.client.pool().connect_options()).clone()
    }

    /// Starts the runner. It goes on until [`RunnerHandle::stop`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRunner`] without a queue, a worker or the state that one needs, or with two for one;
    /// [`Error::NotMigrated`] or [`Error::NewerSchema`]; as for [`Periodic::define`](crate::Periodic::define);
    /// [`Error::Database`].
    pub async fn start(self) -> Result<RunnerHandle> {
        let (shared, results, line) = self.enter().await?;
        let connection = SharedConnection::new(self.connect_options(), self.is_listening);

        // What lives as long as jobs may run stops only when the last result is in. Maintenance stops with
        // the fetches, so that another runner takes it over meanwhile.
        let closing = CancellationToken::new();
        let background = TaskTracker::new();
        let heartbeat = tokio::spawn(heartbeat::beat(Arc::clone(&shared), line, closing.clone()));
        let holder = Holder {
            id: shared.leases.current().id,
            runner: shared.leases.row.name.clone(),
            client: shared.client.clone(),
            connection,
            statements: shared.client.statements().clone(),
        };
        self.upkeep.start(&holder, self.lease, &background, &shared.stopping);
        background.spawn(progress::store(Arc::clone(&shared), closing.clone()));
        let completer = tokio::spawn(completer::complete(Arc::clone(&shared), results));
        let producer = tokio::spawn(producer::produce(Arc::clone(&shared)));
        tracing::info!(runner = %shared.leases.current().id, "runner started");
        Ok(RunnerHandle::new(shared, producer, completer, heartbeat, background, closing, self.stop_timeout))
    }

    /// Starts the runner, and stops it in order when `shutdown` resolves, such as
    /// [`shutdown_signal`](crate::shutdown_signal), or when the future is dropped.
    ///
    /// # Errors
    ///
    /// As for [`Runner::start`] and [`RunnerHandle::stop`].
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let running = Running::new(self.start().await?);
        shutdown.await;
        running.stop().await
    }

    fn check(&self) -> Result<Vec<QueueSlots>> {
        let refuse = |problem: String| Err(Error::InvalidRunner { problem });
        if self.queues.is_empty() {
            return refuse("it has no queue\nhint: add one with .queue(\"default\", 10)".to_owned());
        }
        if self.workers.kinds().is_empty() {
            return refuse("it has no worker\nhint: add one with .worker(…)".to_owned());
        }
        if let Some(kind) = self.workers.doubled() {
            return refuse(format!("two workers for one kind: {kind:?}"));
        }
        self.check_states()?;
        if self.lease < Duration::from_secs(1) {
            return refuse(format!("a lease must be at least 1 s: {:?}", self.lease));
        }
        let own = [("timeout", self.timeout.unwrap_or(Duration::MAX)), ("poll_interval", self.poll_interval)];
        for (name, interval) in own.into_iter().chain(self.upkeep.intervals()) {
            if interval < Duration::from_millis(1) {
                return refuse(format!("{name} must be at least 1 ms: {interval:?}"));
            }
        }
        let mut queues: Vec<QueueSlots> = Vec::with_capacity(self.queues.len());
        for (name, concurrency) in &self.queues {
            let name = QueueName::new(name)?;
            if *concurrency == 0 {
                return refuse(format!("concurrency of queue {name} must be at least 1: 0"));
            }
            if queues.iter().any(|queue| queue.name == name) {
                return refuse(format!("queue given twice: {name}"));
            }
            queues.push(QueueSlots::new(name, *concurrency));
        }
        Ok(queues)
    }
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner")
            .field("queues", &self.queues)
            .field("kinds", &self.workers.kinds())
            .finish_non_exhaustive()
    }
}
