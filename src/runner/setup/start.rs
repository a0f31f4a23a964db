//! Starting a runner: checks its options, enters it in the database and spawns its tasks.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::builder::Runner;
use super::connections::Connections;
use super::registration;
use super::registration::{beginning, host_name};
use crate::client::connections::time_limit;
use crate::error::{AnswerFuture, Error, Result};
use crate::maintenance::{Holder, SharedConnection};
use crate::metrics;
use crate::notify::RunnerSession;
use crate::runner::fetching::budget::Share;
use crate::runner::fetching::groups::RunnerGroups;
use crate::runner::fetching::producer;
use crate::runner::fetching::slots::QueueSlots;
use crate::runner::life::handle::RunnerHandle;
use crate::runner::life::heartbeat;
use crate::runner::life::lease::{Leases, RunnerLease};
use crate::runner::recording::completed_rows::CompletedRetention;
use crate::runner::recording::completer;
use crate::runner::recording::result::Ended;
use crate::runner::runs::Runs;
use crate::runner::shared::{Shared, Signals, Tasks, Workers};
use crate::runner::telemetry::Telemetry;
use crate::runner::working::progress;
use crate::store::RunnerRow;
use crate::words::ident::QueueName;
use crate::worker::panics;

/// The most bytes of an application's version that are stored.
const MAX_VERSION_BYTES: usize = 200;

/// What the parts of a runner share, the results of its attempts, and the heartbeat's session.
pub(in crate::runner) type Entered = (Arc<Shared>, mpsc::UnboundedReceiver<Ended>, RunnerSession);

impl Runner {
    /// Defines the runner's periodic jobs, registers the kinds of its workers, enters it in the database and makes what its
    /// parts share. Nothing runs yet; the results of attempts come out of the receiver, and the session is the heartbeat's.
    pub(in crate::runner) fn enter(self) -> AnswerFuture<'static, Entered> {
        Box::pin(self.check_and_enter())
    }

    async fn check_and_enter(self) -> Result<Entered> {
        // Checked first: a runner that cannot start defines nothing.
        let queues = self.check_queues()?;
        let Self { client, name, version, queues: concurrencies, workers, states, middleware, options, share, hub } =
            self;
        metrics::describe();
        client.check_schema().await?;
        #[cfg(feature = "periodic")]
        let periodic = options.maintenance.define(&client).await?;
        #[cfg(not(feature = "periodic"))]
        let periodic = std::collections::BTreeMap::new();
        let name = name.unwrap_or_else(|| format!("uniqueue {}", std::process::id()));
        let registered = registration::register(&client, &workers, &name, options.timeout, options.retry_policy).await;
        panics::remember_places();
        // The session, maintenance, and fetches and results have connections apart, so that a slow maintenance statement costs
        // no lease.
        let mut connections = Connections::new(client.own_connections(), options.lease);
        let has_sessions = connections.begin(client.statements(), options.is_listening).await?;
        let mut session = match (options.is_listening, &hub) {
            (true, Some(hub)) => RunnerSession::hearing(client.own_connections(), client.schema(), hub),
            (true, None) => RunnerSession::listening(client.own_connections(), client.schema()),
            (false, _) => RunnerSession::without_listening(client.own_connections()),
        };
        if has_sessions {
            session.end_after(heartbeat::longest_statement(options.lease));
        }
        let kinds = workers.kinds();
        let names: Vec<_> = queues.iter().map(|queue| queue.name.clone()).collect();
        let row = RunnerRow {
            name,
            queues: names.iter().map(QueueName::to_string).collect(),
            slots: concurrencies.iter().map(|(_, slots)| i32::try_from(*slots).unwrap_or(i32::MAX)).collect(),
            kinds: kinds.clone(),
            retention: options.maintenance.retention,
            periodic,
            registered,
            version: version.as_deref().map(|version| beginning(version, MAX_VERSION_BYTES).to_owned()),
            host: host_name(),
        };
        let taking = async {
            let connection = session.connection().await?;
            if let Some(version) = &row.version {
                client.store(connection).note_deploy(version).await?;
            }
            RunnerLease::take(client.store(connection), &row, options.lease).await
        };
        let (lease, kept) = time_limit::within(options.lease / 2, taking).await?;
        let (results, received) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            client,
            connections,
            leases: Leases::new(lease, row),
            queues,
            retention: CompletedRetention::new(options.maintenance.retention, kept),
            runs: Runs::default(),
            groups: RunnerGroups::default(),
            results,
            telemetry: Telemetry::new(kinds.as_deref().unwrap_or_default(), &names),
            workers: Workers {
                registry: workers,
                middleware: middleware.into(),
                kinds,
                states: Arc::new(states),
                reports: Arc::default(),
            },
            signals: Signals { freed: share.as_ref().map(Share::wake).unwrap_or_default(), ..Signals::default() },
            share,
            tasks: Tasks::default(),
            options,
        });
        Ok((shared, received, session))
    }

    /// Starts the runner. It goes on until [`RunnerHandle::stop`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRunner`] without a queue, a worker, the state that one needs or the queue that its kind names, or
    /// with two for one;
    /// [`Error::NotMigrated`] or [`Error::NewerSchema`]; as for [`Client::define_periodic`](crate::Client::define_periodic);
    /// [`Error::Database`].
    pub async fn start(self) -> Result<RunnerHandle> {
        let entered = self.enter().await?;
        Ok(spawn(entered))
    }

    /// Starts the runner, and stops it in order when `shutdown` resolves, such as
    /// [`shutdown_signal`](crate::shutdown_signal), or when the future is dropped.
    ///
    /// # Errors
    ///
    /// As for [`Runner::start`] and [`RunnerHandle::stop`].
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        self.start().await?.stop_after(shutdown).await
    }

    /// Checks what can be checked without a database. Answers with the queues.
    pub(in crate::runner) fn check_queues(&self) -> Result<Vec<QueueSlots>> {
        let refuse = |problem: String| Err(Error::InvalidRunner { problem });
        if self.queues.is_empty() {
            return refuse("it has no queue; hint: add one with .queue(\"default\", 10)".to_owned());
        }
        if self.workers.kinds().is_some_and(|kinds| kinds.is_empty()) {
            return refuse("it has no worker; hint: add one with .worker(…)".to_owned());
        }
        if let Some(kind) = self.workers.doubled() {
            return refuse(format!("two workers for one kind: {kind:?}"));
        }
        self.check_states()?;
        if let Some(problem) = self.options.problem() {
            return refuse(problem);
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
            queues.push(QueueSlots::new(name, *concurrency, self.share.clone()));
        }
        let default = self.client.defaults().queue.as_deref();
        if let Some((kind, queue)) = self.workers.unworked(&self.queues, default) {
            return refuse(format!(
                "jobs of kind {kind:?} go to queue {queue:?}, which it does not work; hint: add .queue({queue:?}, 10), or name their queue with WorkerOptions::queue"
            ));
        }
        Ok(queues)
    }

    /// Checks what can be checked without a database.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_queues().map(|_| ())
    }

    /// Checks that the workers and the middleware have what they say they need.
    fn check_states(&self) -> Result<()> {
        let refuse = |problem: String| Err(Error::InvalidRunner { problem });
        if let Some(doubled) = self.states.doubled() {
            return refuse(format!(
                "two values of state of one type: {doubled}; hint: wrap one of them in a type of its own"
            ));
        }
        let hint = "hint: add it with .state(…)";
        if let Some((kind, lacking)) = self.workers.lacks(&self.states) {
            return refuse(format!("the worker of kind {kind:?} needs state that is missing: {lacking}\n{hint}"));
        }
        let lacks = |needs| self.states.lacks(&needs);
        match self.middleware.iter().find_map(|middleware| lacks(middleware.needs())) {
            Some(lacking) => refuse(format!("a middleware needs state that is missing: {lacking}\n{hint}")),
            None => Ok(()),
        }
    }
}

/// Spawns the tasks of a runner that is entered.
fn spawn((shared, results, session): Entered) -> RunnerHandle {
    let Shared { client, options, leases, signals, .. } = &*shared;
    // The heartbeat and progress stop only when the last result is recorded. Maintenance stops with the fetches, so that
    // another runner takes it over meanwhile.
    let closing = CancellationToken::new();
    let background = TaskTracker::new();
    let heartbeat = tokio::spawn(heartbeat::beat(Arc::clone(&shared), session, closing.clone()));
    let holder = Holder {
        id: leases.current().id,
        runner: leases.row.name.clone(),
        client: client.clone(),
        connection: SharedConnection::new(client.own_connections(), options.is_listening),
    };
    let parent_ended = options.is_listening.then(|| Arc::clone(&signals.parent_ended));
    options.maintenance.start(&holder, options.lease, parent_ended, &background, &signals.stopping);
    background.spawn(progress::store(Arc::clone(&shared), closing.clone()));
    let completer = tokio::spawn(completer::complete(Arc::clone(&shared), results));
    let producer = tokio::spawn(producer::produce(Arc::clone(&shared)));
    tracing::info!(runner = %holder.id, "runner started");
    let stop_timeout = options.stop_timeout;
    RunnerHandle { shared, stop_timeout, producer, completer, heartbeat, background, closing }
}
