//! A running job: of any kind, and with the args of its kind.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlx::PgConnection;
use tokio_util::sync::CancellationToken;

use super::attempt::Attempt;
use super::stop::StopReason;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::json::check_value;
use crate::store::{RunResult, Verdict};
use crate::words::after::JobParent;
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::job::{Job, JobRow};
use crate::words::job_error::JobError;
use crate::words::outcome::BoxError;

/// A running job, as its worker gets it: typed args, and what there is of [any job](AnyJob).
#[derive(Debug)]
pub struct RunningJob<J> {
    /// The job's args.
    pub args: J,
    job: AnyJob,
}

impl<J: Job> RunningJob<J> {
    pub(crate) fn read(attempt: Arc<Attempt>) -> Result<Self, BoxError> {
        let args = attempt.row.args_as().map_err(|error| JobError::new(error).code("invalid_args"))?;
        Ok(Self { args, job: AnyJob::new(attempt) })
    }
}

impl<J> Deref for RunningJob<J> {
    type Target = AnyJob;

    fn deref(&self) -> &AnyJob {
        &self.job
    }
}

/// A running job of any kind, with its row and the ways to end it: what a [`RunningJob`] is besides its args, and the argument
/// of a [`Middleware`](crate::Middleware) and of a worker of several kinds
/// ([`Runner::worker_for`](crate::Runner::worker_for)). Cheap to clone.
#[derive(Clone, Debug)]
pub struct AnyJob {
    attempt: Arc<Attempt>,
}

impl AnyJob {
    pub(crate) const fn new(attempt: Arc<Attempt>) -> Self {
        Self { attempt }
    }

    /// The job's id.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.attempt.row.id
    }

    /// Its type name.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.attempt.row.kind
    }

    /// Its queue.
    #[must_use]
    pub fn queue(&self) -> &QueueName {
        &self.attempt.row.queue
    }

    /// The attempt, counted from 1.
    #[must_use]
    pub fn attempt(&self) -> u16 {
        self.attempt.row.attempt
    }

    /// The job's row as it was fetched, with its args and meta.
    #[must_use]
    pub fn row(&self) -> &JobRow {
        &self.attempt.row
    }

    /// The client of the runner, to insert more jobs.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.attempt.client
    }

    /// The runner's value of this type, given with [`Runner::state`](crate::Runner::state).
    ///
    /// # Errors
    ///
    /// [`Error::MissingState`] when the runner was given none. A [`Worker`](crate::Worker) can declare it in
    /// [`needs`](crate::Worker::needs), so that a runner without it does not start.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<&T> {
        self.attempt.states.of()
    }

    /// The parents of this job ([`NewJob::after`](crate::NewJob::after)) with their outputs, in the order of their ids, which
    /// is the order of inserts. Sends one statement.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use uniqueue::{BoxError, Job, Outcome, RunningJob};
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(kind = "total")]
    /// # struct Total {}
    /// async fn total(job: RunningJob<Total>) -> Result<Outcome, BoxError> {
    ///     let mut total = 0;
    ///     for parent in job.parents().await? {
    ///         total += parent.output_as::<u64>()?.unwrap_or(0);
    ///     }
    ///     Ok(Outcome::complete_with(total)?)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub async fn parents(&self) -> Result<Vec<JobParent>> {
        self.client().parents(self.id()).await
    }

    /// The outputs of the [parents](Self::parents) of kind `P` that have completed with an output.
    ///
    /// # Errors
    ///
    /// As for [`AnyJob::parents`]; and [`Error::InvalidJson`] where an output does not fit the type.
    pub async fn outputs_of<P: Job, T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        let parents = self.parents().await?;
        let of_kind = |parent: &&JobParent| parent.kind.as_ref().is_some_and(|kind| kind.as_str() == P::KIND);
        parents.iter().filter(of_kind).filter_map(|parent| parent.output_as().transpose()).collect()
    }

    /// Resolves when the work should stop, with the reason: the job was cancelled, its [timeout](crate::Runner::timeout)
    /// has passed, the runner is being stopped hard, or the runner has lost its lease.
    ///
    /// The work then has the runner's [`stop_grace`](crate::Runner::stop_grace) to clean up. Whether its result in that time
    /// counts depends on the [`StopReason`]. After the grace it is dropped at its next `.await`. Work without clean-up needs
    /// no code for this.
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

    /// Whether the work should stop: for loops that do not wait.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.attempt.stop.reason().is_some()
    }

    /// A token that fires when the work should stop, for code that takes one. Cancelling it stops that code, and
    /// not the job.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.attempt.stop.token()
    }

    /// Reports how far the work is: any JSON, such as [`Progress`](crate::Progress), for
    /// [`JobRow::progress`] and the column of that name. It is cheap, so report often: only the latest report counts, and
    /// it is stored within about a second, or with the attempt's result.
    ///
    /// It stays when the job ends or tries again. So an attempt finds in [`AnyJob::row`] how far the last one came, and
    /// can go on there. After the death of a process that report is a second or two old.
    ///
    /// A value that PostgreSQL cannot store, such as a text with a NUL, is ignored with a warning in the log, so that it does
    /// not fail the job. Every change rewrites the job's row, so keep it small.
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
            check_value("progress", self.kind().as_str(), &progress, usize::MAX).map_err(|error| error.to_string())?;
            Ok(progress)
        });
        match checked {
            Ok(progress) => attempt.reports.report(attempt.reporter(), &attempt.is_over, progress),
            Err(problem) => {
                tracing::warn!(job.id = %attempt.row.id, problem, "progress cannot be stored, and is ignored")
            }
        }
    }

    /// Completes the job inside the worker's own transaction, so that the work's effects and its
    /// completion commit together: exactly once, even after a crash. Return `Ok` after the commit.
    ///
    /// If the transaction does not commit, the attempt counts as failed.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] when the job no longer belongs to this attempt, because it was rescued or cancelled: then roll
    /// back. [`Error::Database`].
    pub async fn complete_in(&self, connection: &mut PgConnection) -> Result<()> {
        self.complete(connection, None).await
    }

    /// As [`AnyJob::complete_in`], with an output.
    ///
    /// # Errors
    ///
    /// As for [`AnyJob::complete_in`]; and [`Error::InvalidJson`] when the output does not serialise.
    pub async fn complete_in_with(&self, connection: &mut PgConnection, output: impl Serialize) -> Result<()> {
        let output = serde_json::to_value(output).map_err(|error| Error::InvalidJson {
            what: "output",
            kind: self.kind().to_string(),
            problem: error.to_string(),
        })?;
        self.complete(connection, Some(output)).await
    }

    async fn complete(&self, connection: &mut PgConnection, output: Option<Value>) -> Result<()> {
        let attempt = &self.attempt;
        let progress = attempt.reports.unstored(attempt.reporter());
        let result = RunResult::of(&attempt.row, Verdict::Complete { output });
        let result = RunResult { progress, is_deleted: attempt.is_deleted, ..result };
        let finished = attempt.client.store(connection).finish(attempt.worker, &[&result], None).await?;
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
