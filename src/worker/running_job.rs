//! A job in the hands of its worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::Value;
use sqlx::PgConnection;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::progress::{Reporter, Reports};
use super::state::States;
use super::stop::{Stop, StopReason};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::ident::JobId;
use crate::job::{Job, JobRow};
use crate::outcome::BoxError;
use crate::store::{self, RunResult, Verdict};
use crate::unique::check_jsonb;

/// A job in the hands of its worker: typed args, the row, and the ways to end it.
#[derive(Debug)]
pub struct RunningJob<J> {
    /// The job's args.
    pub args: J,
    attempt: Arc<Attempt>,
}

/// One attempt at one job, as the runner and the worker share it.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) row: JobRow,
    /// The runner's lease under which it was fetched: the fence.
    pub(crate) worker: Uuid,
    pub(crate) client: Client,
    pub(crate) states: Arc<States>,
    pub(crate) stop: Arc<Stop>,
    /// Whether the row goes when the job completes.
    pub(crate) is_deleted: bool,
    pub(crate) reports: Arc<Reports>,
    /// Whether the worker completed it in a transaction of its own.
    pub(crate) is_completed_in: AtomicBool,
    /// Whether its result is on its way: nothing is reported from then on.
    pub(crate) is_over: AtomicBool,
}

#[cfg(feature = "testing")]
impl Attempt {
    /// An attempt that no runner knows of.
    pub(crate) fn alone(row: JobRow, worker: Uuid, client: Client, states: States, stop: Stop) -> Self {
        let (states, stop) = (Arc::new(states), Arc::new(stop));
        let reports = Arc::default();
        let (is_completed_in, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { row, worker, client, states, stop, reports, is_deleted: false, is_completed_in, is_over }
    }
}

impl Attempt {
    /// Who reports progress here.
    pub(crate) const fn reporter(&self) -> Reporter {
        Reporter { worker: self.worker, id: self.row.id, run: self.row.run }
    }
}

impl<J: Job> RunningJob<J> {
    pub(crate) fn read(attempt: Arc<Attempt>) -> Result<Self, BoxError> {
        Ok(Self { args: attempt.row.args_as()?, attempt })
    }

    /// The job's id.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.attempt.row.id
    }

    /// Which attempt this is, counted from 1.
    #[must_use]
    pub fn attempt(&self) -> u16 {
        self.attempt.row.attempt
    }

    /// The job's row as it was fetched.
    #[must_use]
    pub fn row(&self) -> &JobRow {
        &self.attempt.row
    }

    /// The client of the runner, to insert more jobs with.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.attempt.client
    }

    /// The runner's value of this type, given with [`Runner::state`](crate::Runner::state).
    ///
    /// # Errors
    ///
    /// [`Error::MissingState`] when the runner was given none. A [`Worker`](crate::Worker) can say
    /// in [`needs`](crate::Worker::needs) that it asks, so that such a runner does not start.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<&T> {
        self.attempt.states.of()
    }

    /// Resolves when the work should stop, with the reason: the job was cancelled, its time is over (its
    /// [timeout](crate::Runner::timeout)), or the runner is being stopped hard or has lost its lease.
    ///
    /// The work then has the runner's [`stop_grace`](crate::Runner::stop_grace) to clean up, and what
    /// it returns in that time still counts as its [`StopReason`] says. After the grace it is dropped
    /// at its next `.await`. Work that cares for none of this needs no code: it is dropped.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use uniqueue::{Job, Outcome, RunningJob};
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(kind = "video.encode")]
    /// # struct Encode { file: String }
    /// # async fn encode(file: &str) {}
    /// # async fn remove_parts(file: &str) {}
    /// async fn work(job: RunningJob<Encode>) -> Result<(), String> {
    ///     tokio::select! {
    ///         () = encode(&job.args.file) => Ok(()),
    ///         reason = job.stopped() => {
    ///             remove_parts(&job.args.file).await;
    ///             Err(format!("stopped: {reason:?}"))
    ///         }
    ///     }
    /// }
    /// ```
    pub async fn stopped(&self) -> StopReason {
        self.attempt.stop.requested().await
    }

    /// Whether the work should stop: for loops that have nothing to wait for.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.attempt.stop.reason().is_some()
    }

    /// A token that fires when the work should stop, for code that takes one. Cancelling it stops
    /// what listens to it, and not the job.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.attempt.stop.token()
    }

    /// Reports how far the work is: any JSON, such as [`Progress`](crate::Progress), for
    /// [`JobRow::progress`] and the column of that name. Cheap, so report as often as you like: only
    /// the latest counts, and it is stored within about a second, or with the attempt's result.
    ///
    /// It stays when the job ends or tries again. So an attempt finds in [`RunningJob::row`] how far
    /// the last one came, and can go on there; of a process that died that is a second old, or two.
    ///
    /// A value that PostgreSQL cannot store (a NUL in a text, say) is left out with a warning in the
    /// log: a report must not cost a job its result. Every change rewrites the job's row, so keep it
    /// small.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use uniqueue::{Job, RunningJob};
    /// use uniqueue::Progress;
    ///
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(kind = "import")]
    /// # struct Import { lines: Vec<String> }
    /// async fn import(job: RunningJob<Import>) {
    ///     let total = job.args.lines.len() as u64;
    ///     for (done, line) in (0..).zip(&job.args.lines) {
    ///         job.progress(Progress::of(done, total));
    ///         println!("{line}");
    ///     }
    /// }
    /// ```
    pub fn progress(&self, progress: impl Serialize) {
        let attempt = &self.attempt;
        let checked = serde_json::to_value(progress).map_err(|error| error.to_string()).and_then(|progress| {
            check_jsonb("progress", J::KIND, &progress).map_err(|error| error.to_string())?;
            Ok(progress)
        });
        match checked {
            Ok(progress) => attempt.reports.report(attempt.reporter(), &attempt.is_over, progress),
            Err(problem) => tracing::warn!(job.id = %attempt.row.id, problem, "progress left out"),
        }
    }

    /// Completes the job inside the worker's own transaction, so that the work's effects and its
    /// completion commit together: exactly once, whatever crashes. Return `Ok` after the commit.
    ///
    /// Should the transaction not commit after all, the attempt counts as failed.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] when the job is no longer this attempt's (it was rescued or cancelled):
    /// roll back, the effects are another's to make. [`Error::Database`] as usual.
    pub async fn complete_in(&self, connection: &mut PgConnection) -> Result<()> {
        self.complete(connection, None).await
    }

    /// Like [`RunningJob::complete_in`], and keeps an output.
    ///
    /// # Errors
    ///
    /// As for [`RunningJob::complete_in`]; and [`Error::InvalidJson`] when the output does not serialise.
    pub async fn complete_in_with(&self, connection: &mut PgConnection, output: impl Serialize) -> Result<()> {
        let output = serde_json::to_value(output).map_err(|error| Error::InvalidJson {
            what: "output",
            kind: J::KIND.to_owned(),
            problem: error.to_string(),
        })?;
        self.complete(connection, Some(output)).await
    }

    async fn complete(&self, connection: &mut PgConnection, output: Option<Value>) -> Result<()> {
        let attempt = &self.attempt;
        let progress = attempt.reports.unstored(attempt.reporter());
        let result = RunResult::of(&attempt.row, Verdict::Complete { output });
        let result = RunResult { progress, is_deleted: attempt.is_deleted, ..result };
        let finished = store::finish(connection, attempt.client.statements(), attempt.worker, &[&result], None).await?;
        if !finished.contains_key(&result.id) {
            return Err(Error::Stale { id: result.id, attempt: result.attempt });
        }
        attempt.is_completed_in.store(true, Ordering::Release);
        if attempt.is_deleted {
            attempt.stop.will_delete();
        }
        Ok(())
    }
}
