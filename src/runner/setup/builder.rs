//! Building a runner: its queues, its workers and their context, and the setters of its [options](super::options).

use std::sync::Arc;
use std::time::Duration;

use super::options::RunnerOptions;
use crate::client::Client;
use crate::notify::ListenHub;
use crate::period::LONGEST;
use crate::runner::fetching::budget::Share;
use crate::words::job::Job;
use crate::words::outcome::IntoResult;
use crate::words::retention::Retention;
use crate::words::retry::RetryPolicy;
use crate::worker::{AnyJob, AnyMiddleware, BatchWorker, Middleware, Registry, States, Worker, WorkerOptions};

/// Builds a runner: its queues, its workers and its options.
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
    pub(in crate::runner) client: Client,
    pub(in crate::runner) name: Option<String>,
    pub(in crate::runner) version: Option<String>,
    pub(in crate::runner) queues: Vec<(String, usize)>,
    pub(in crate::runner) workers: Registry,
    pub(in crate::runner) states: States,
    pub(in crate::runner) middleware: Vec<Arc<dyn AnyMiddleware>>,
    pub(in crate::runner) options: RunnerOptions,
    /// Its part of a budget that runners of several places share. `None`: its queues alone limit it.
    pub(in crate::runner) share: Option<Share>,
    /// The session that listens for it. `None`: its own session does.
    pub(in crate::runner) hub: Option<Arc<ListenHub>>,
}

impl Runner {
    /// A runner without queues and workers.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            name: None,
            version: None,
            queues: Vec::new(),
            workers: Registry::default(),
            states: States::default(),
            middleware: Vec::new(),
            options: RunnerOptions::default(),
            share: None,
            hub: None,
        }
    }

    /// Works a queue, at most this many of its jobs at once in this runner.
    ///
    /// The least is 1. With 0 the runner does not start: [`Runner::start`] is [`Error::InvalidRunner`](crate::Error::InvalidRunner).
    /// To run nothing, leave the queue out, or [pause](crate::Queue::pause) it for all runners.
    pub fn queue(mut self, name: impl Into<String>, concurrency: usize) -> Self {
        self.queues.push((name.into(), concurrency));
        self
    }

    /// Works jobs of one kind with a [`Worker`] or an async function. Jobs of kinds without a
    /// worker here are left to other runners.
    ///
    /// If the kind names its queue, the runner must [work it](Self::queue): a runner that would never get a job of the kind
    /// does not start. If inserts name another queue, [`WorkerOptions::queue`] tells the runner.
    pub fn worker<J: Job>(self, worker: impl Worker<J>) -> Self {
        self.worker_with(worker, WorkerOptions::new())
    }

    /// Like [`Runner::worker`], with a timeout or a retry policy for this kind.
    pub fn worker_with<J: Job>(mut self, worker: impl Worker<J>, options: WorkerOptions) -> Self {
        self.workers.add(worker, options);
        self
    }

    /// Works jobs of one kind with a [`BatchWorker`] or an async function, which takes several of them at once.
    ///
    /// Each job takes a slot: the [queue](Self::queue) needs as many as a batch has jobs. Otherwise a batch is smaller, and
    /// its first job waits for the whole [`batch_wait`](WorkerOptions::batch_wait). The timeout is that of each job, counted
    /// from when it joined its batch.
    pub fn batch_worker<J: Job>(mut self, worker: impl BatchWorker<J>, options: WorkerOptions) -> Self {
        self.workers.add_batch(worker, options);
        self
    }

    /// Works jobs of these kinds, which may be known only at run time, with one async function. It gets an [`AnyJob`], whose
    /// [row](AnyJob::row) has the args as JSON. Its timeout and retry policy are the runner's. The queues of the kinds are not
    /// checked, since the kinds name none.
    ///
    /// ```no_run
    /// # use uniqueue::{AnyJob, BoxError, Client, Outcome, Runner, shutdown_signal};
    /// async fn forward(job: AnyJob) -> Result<Outcome, BoxError> {
    ///     println!("{} {}", job.kind(), job.row().args);
    ///     Ok(Outcome::complete())
    /// }
    ///
    /// # async fn run(client: Client, kinds: Vec<String>) -> uniqueue::Result<()> {
    /// Runner::new(client).queue("mail", 5).worker_for(kinds, forward).run_until(shutdown_signal()).await
    /// # }
    /// ```
    pub fn worker_for<F, R>(self, kinds: impl IntoIterator<Item = impl Into<String>>, work: F) -> Self
    where
        F: Fn(AnyJob) -> R + Send + Sync + 'static,
        R: Future<Output: IntoResult> + Send + 'static,
    {
        self.worker_for_with(kinds, work, WorkerOptions::new())
    }

    /// Like [`worker_for`](Self::worker_for), with a timeout or a retry policy for these kinds. Their queue is not checked.
    pub fn worker_for_with<F, R>(
        mut self,
        kinds: impl IntoIterator<Item = impl Into<String>>,
        work: F,
        options: WorkerOptions,
    ) -> Self
    where
        F: Fn(AnyJob) -> R + Send + Sync + 'static,
        R: Future<Output: IntoResult> + Send + 'static,
    {
        self.workers.add_for(kinds.into_iter().map(Into::into), work, options);
        self
    }

    /// Like [`worker_for`](Self::worker_for), for every kind that has no worker of its own here.
    pub fn worker_for_any<F, R>(mut self, work: F) -> Self
    where
        F: Fn(AnyJob) -> R + Send + Sync + 'static,
        R: Future<Output: IntoResult> + Send + 'static,
    {
        self.workers.add_for_any(work);
        self
    }

    /// The runner's name in the table `runner`. Default: `uniqueue` and the process id.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The version of the application, such as `env!("CARGO_PKG_VERSION")` or a commit. Lists of runners show it. At most 200
    /// bytes are stored. The first runner of a new version marks a deploy in the history. Default: none.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Gives the workers a value to share, one of each type: they reach it with
    /// [`AnyJob::state`](crate::AnyJob::state). That takes no lock. A value that changes brings its own.
    ///
    /// ```no_run
    /// # use serde::{Deserialize, Serialize};
    /// # use uniqueue::{BoxError, Client, Job, Runner, RunningJob, shutdown_signal};
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(kind = "email.send", queue = "emails")]
    /// # struct SendEmail { to: String }
    /// # struct Mailer;
    /// # impl Mailer {
    /// #     fn connect() -> Self { Self }
    /// #     async fn send(&self, to: &str) -> Result<(), BoxError> { Ok(()) }
    /// # }
    /// async fn send_email(job: RunningJob<SendEmail>) -> Result<(), BoxError> {
    ///     let mailer: &Mailer = job.state()?;
    ///     mailer.send(&job.args.to).await
    /// }
    ///
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// Runner::new(client)
    ///     .queue("emails", 20)
    ///     .state(Mailer::connect())
    ///     .worker(send_email)
    ///     .run_until(shutdown_signal())
    ///     .await
    /// # }
    /// ```
    ///
    /// Two values of one type keep the runner from starting, and so does one that a worker
    /// [needs](crate::Worker::needs) and that is missing. To share one type in two roles, wrap it.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.add(value);
        self
    }

    /// Runs a [`Middleware`] around every attempt of every kind. Several nest in the order in which
    /// they are added: the first is the outermost.
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// With a share of a budget of slots, and a hub that listens for it.
    pub(crate) fn sharing(mut self, share: Share, hub: Option<Arc<ListenHub>>) -> Self {
        (self.share, self.hub) = (Some(share), hub);
        self
    }

    /// How many jobs its queues may run at once.
    pub(crate) fn slots(&self) -> usize {
        self.queues.iter().fold(0, |sum, (_, slots)| sum.saturating_add(*slots))
    }

    pub(crate) const fn listens(&self) -> bool {
        self.options.is_listening
    }

    /// The client that the runner works with.
    #[cfg(feature = "testing")]
    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }
}

/// How failed jobs try again, and how long a job may run. No time is longer than 100 years, so there is always an instant that
/// is so far away.
impl Runner {
    /// When failed jobs try again, unless their worker says otherwise. Default: exponential, from
    /// one second to an hour.
    pub fn retry_policy(mut self, retry_policy: RetryPolicy) -> Self {
        self.options.retry_policy = retry_policy;
        self
    }

    /// How long a job may run, unless its worker says otherwise ([`Worker::timeout`](crate::Worker::timeout)); at least 1 ms.
    /// `Duration::MAX`: as long as it likes. Default: as long as it likes, since only the application knows how long its work
    /// takes, and a runner that died is noticed by its lease.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }
}

/// How the runner polls, how long it counts as alive and how it stops.
impl Runner {
    /// How often an idle runner looks for jobs that no notification told of. Default: 1 s;
    /// at least 1 ms, at most 100 years, as which longer ones count.
    pub fn poll_interval(mut self, poll_interval: Duration) -> Self {
        self.options.poll_interval = poll_interval.min(LONGEST);
        self
    }

    /// Never listens and never asks to be notified: polling is all. For PgBouncer in transaction
    /// mode, where LISTEN succeeds and never fires.
    pub fn poll_only(mut self) -> Self {
        self.options.is_listening = false;
        self
    }

    /// How long the runner counts as alive after its last heartbeat; it sends four a term. The
    /// jobs of a runner that died are back when its term is over, after a back-off of a second, as soon as another runner
    /// looks: at the latest half a term, or 10 s, later. Default: 20 s; at least 1 s, at most 100 years, as which longer
    /// ones count.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease.min(LONGEST);
        self
    }

    /// How long a stop waits for running jobs before it tells them to stop; those that still run
    /// after the [`stop_grace`](Runner::stop_grace) are given back, without using up their attempt.
    /// Default: 25 s, so that all of it fits into the 30 s after which Kubernetes kills a process. At most 100 years,
    /// as which longer ones count.
    pub fn stop_timeout(mut self, stop_timeout: Duration) -> Self {
        self.options.stop_timeout = stop_timeout.min(LONGEST);
        self
    }

    /// How long work may go on after it was told to stop ([`AnyJob::stopped`]): to clean up, or
    /// to finish after all. Then it is dropped at its next `.await`. Default: 1 s, which is enough
    /// for a clean-up nearby, and short enough that a cancelled job frees its slot soon. Zero drops
    /// at once; at most 100 years, as which longer ones count. When the lease is lost there is no grace: the job may be
    /// running elsewhere.
    ///
    /// [`AnyJob::stopped`]: crate::AnyJob::stopped
    pub fn stop_grace(mut self, stop_grace: Duration) -> Self {
        self.options.stop_grace = stop_grace.min(LONGEST);
        self
    }
}

/// Maintenance: any of the runners does it for all.
impl Runner {
    /// How many crashes in a row discard a job. A crash is the death of the job's runner, or the loss of its lease. Default: 3;
    /// at least 3. The first crash may be the fault of any of the runner's jobs, and the second of another suspect that ran
    /// at the same time. From the second crash on a job runs alone.
    pub fn max_crashes(mut self, max_crashes: u16) -> Self {
        self.options.maintenance.max_crashes = max_crashes;
        self
    }

    /// How long final jobs are kept, where their queue does not say otherwise. Default: completed
    /// and cancelled a day, discarded a week.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.options.maintenance.retention = retention;
        self
    }

    /// How often the runner looks for scheduled and retryable jobs that are due, at the least. It also finds out when the
    /// next job is due, so a job starts on time unless it was inserted since with less than this to wait. Then it may be
    /// this late. Default: 1 s; at least 1 ms, at most 100
    /// years, as which longer ones count.
    pub fn promote_interval(mut self, promote_interval: Duration) -> Self {
        self.options.maintenance.promote_interval = promote_interval.min(LONGEST);
        self
    }

    /// How often final jobs that are old enough are deleted. Default: 30 s; at least 1 ms, at most 100 years, as which longer ones count.
    pub fn prune_interval(mut self, prune_interval: Duration) -> Self {
        self.options.maintenance.prune_interval = prune_interval.min(LONGEST);
        self
    }

    /// How often bloated indexes of the queue's own tables are looked for and rebuilt, with `REINDEX
    /// CONCURRENTLY`, one after another, on a connection opened for it. Counted over all runners, from
    /// when the queue's first one started. An index is rebuilt when it has at least 8 MB and three times
    /// the pages it needs. Only the owner of the tables can: with another role, and with
    /// [`poll_only`](Runner::poll_only), whose connections may have no session of their own, nothing is
    /// done. Default: a day; at least 1 ms; a longer interval than 100 years counts as 100 years. `Duration::MAX`: never in this
    /// runner.
    pub fn reindex_interval(mut self, reindex_interval: Duration) -> Self {
        let is_on = reindex_interval < Duration::MAX;
        self.options.maintenance.reindex_interval = is_on.then(|| reindex_interval.min(LONGEST));
        self
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
