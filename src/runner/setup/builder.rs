//! Building a runner: its queues, its workers and their context. [`options`](super::options) has the rest.

use std::sync::Arc;

use super::options::RunnerOptions;
use crate::client::Client;
use crate::notify::ListenHub;
use crate::runner::fetching::budget::Share;
use crate::words::job::Job;
use crate::words::outcome::IntoResult;
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

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner")
            .field("queues", &self.queues)
            .field("kinds", &self.workers.kinds())
            .finish_non_exhaustive()
    }
}
