//! The data that the parts of one runner share, grouped by the parts that need them.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Mutex, Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::fetching::budget::Share;
use super::fetching::groups::RunnerGroups;
use super::fetching::slots::{QueueSlots, UnstartedJob};
use super::life::lease::Leases;
use super::recording::completed_rows::CompletedRetention;
use super::recording::result::Ended;
use super::runs::Runs;
use super::setup::connections::Connections;
use super::setup::options::RunnerOptions;
use super::telemetry::Telemetry;
use crate::client::Client;
use crate::error::Result;
use crate::store::{RunResult, Store, Verdict};
use crate::words::ident::QueueName;
use crate::words::retry::RetryPolicy;
use crate::worker::panics::catch;
use crate::worker::{AnyMiddleware, Registry, Reports, States};

/// The parts of a runner that its tasks share.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) options: RunnerOptions,
    pub(super) connections: Connections,
    pub(super) leases: Leases,
    pub(super) queues: Vec<QueueSlots>,
    /// Its part of a budget that runners of several places share.
    pub(super) share: Option<Share>,
    pub(super) retention: CompletedRetention,
    pub(super) runs: Runs,
    pub(super) groups: RunnerGroups,
    /// Where runs send their results: to the completer.
    pub(super) results: mpsc::UnboundedSender<Ended>,
    pub(super) workers: Workers,
    pub(super) telemetry: Telemetry,
    pub(super) signals: Signals,
    pub(super) tasks: Tasks,
}

/// The code that works jobs, and the data that it needs.
pub(super) struct Workers {
    pub(super) registry: Registry,
    /// The middleware of every attempt, the outermost first.
    pub(super) middleware: Arc<[Arc<dyn AnyMiddleware>]>,
    /// The kinds that have a worker here. Others are left to other runners. `None`: any kind has one.
    pub(super) kinds: Option<Vec<String>>,
    pub(super) states: Arc<States>,
    /// Progress that jobs reported and that is not stored yet.
    pub(super) reports: Arc<Reports>,
}

/// The signals between the tasks of the runner.
#[derive(Default)]
pub(super) struct Signals {
    /// Wakes the producer: a notification came.
    pub(super) wake: Notify,
    /// Wakes the producer: a slot is free again, or results were recorded that it waits for.
    pub(super) freed: Arc<Notify>,
    /// Jobs were fetched that wait for a slot.
    pub(super) fetched_ahead: Notify,
    /// Wakes the releaser after the end of a job with children.
    pub(super) parent_ended: Arc<Notify>,
    /// Stop fetching.
    pub(super) stopping: CancellationToken,
    /// No more results will come.
    pub(super) drained: CancellationToken,
}

/// Tasks of which there are many, each awaited at the stop.
#[derive(Default)]
pub(super) struct Tasks {
    /// The slots at work.
    pub(super) attempts: TaskTracker,
    /// Results that are set aside: their rows are locked, or the database rejects them.
    pub(super) set_aside: TaskTracker,
    /// Held by the one of these that is being sent.
    pub(super) set_aside_permit: Mutex<()>,
}

impl Shared {
    /// The retry policy of a kind: its worker's, or the runner's.
    pub(super) fn retry_policy_of(&self, kind: &str) -> RetryPolicy {
        // It is the worker's code as well.
        let of_worker = catch(|| self.workers.registry.worker(kind)?.retry_policy()).unwrap_or_else(|panic| {
            tracing::error!(panic, "the worker panicked when asked for its retry policy: the runner's is used");
            None
        });
        of_worker.unwrap_or(self.options.retry_policy)
    }

    pub(super) fn queue(&self, name: &QueueName) -> Option<&QueueSlots> {
        self.queues.iter().find(|queue| queue.name == *name)
    }

    /// Whether too many results wait to be recorded.
    pub(super) fn is_full_of_results(&self) -> bool {
        self.runs.are_too_many(self.queues.iter().map(QueueSlots::count).sum())
    }

    /// Sends one statement over one of the runner's connections, and waits for its answer.
    pub(super) async fn ask<T>(&self, statement: impl AsyncFnOnce(Store<'_>) -> Result<T>) -> Result<T> {
        self.connections.ask(async |connection| statement(self.client.store(connection)).await).await
    }

    /// Sends the result of a run to the completer, which outlives every run.
    pub(super) fn send(&self, ended: Ended) {
        let _ = self.results.send(ended);
    }

    /// Gives back jobs that were not started, without using up their attempts.
    pub(super) fn give_back(&self, jobs: impl IntoIterator<Item = UnstartedJob>) {
        for job in jobs {
            let result = RunResult::of(&job.attempt.row, Verdict::GiveBack { has_started: false });
            self.send(job.ended(result));
        }
    }

    /// Lets go of runs whose results are recorded, or cannot count any more.
    pub(super) fn let_go(&self, batch: &[Ended]) {
        let (is_awaited, freed) = self.runs.let_go(batch);
        self.groups.free(&freed, Instant::now());
        if is_awaited || !freed.is_empty() {
            self.signals.freed.notify_one();
        }
    }
}
