//! Working every available job in the test's task.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use crate::error::Result;
use crate::runner::{Drainer, Runner, WorkedJob};
use crate::words::event::Happened;
use crate::words::job::Job;
use crate::words::state::JobState;

/// The default number of attempts after which a drain panics.
const LIMIT: usize = 10_000;

/// Works every available job of a runner's queues and kinds in the current task, one after another,
/// in the order of work: higher priority first, within one the older, over all queues. Jobs that are
/// inserted meanwhile are worked as well. Ends when none is available, and returns every attempt.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use uniqueue::{Client, Job, JobState, Runner, RunningJob, testing};
///
/// #[derive(Deserialize, Job, Serialize)]
/// #[job(kind = "number.halve", max_attempts = 2)]
/// struct Halve {
///     n: u32,
/// }
///
/// async fn halve(job: RunningJob<Halve>) -> Result<(), uniqueue::BoxError> {
///     match job.args.n {
///         0 => Ok(()),
///         n if n % 2 == 1 => Err(format!("odd: {n}").into()),
///         n => {
///             job.client().insert(Halve { n: n / 2 }).await?;
///             Ok(())
///         }
///     }
/// }
///
/// fn runner(client: &Client) -> Runner {
///     Runner::new(client.clone()).queue("default", 10).worker(halve)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = testing::Database::new().await?;
/// database.client().insert(Halve { n: 12 }).await?;
///
/// // 12, 6, 3: the last one fails, and waits for its retry.
/// let drained = testing::drain(runner(database.client())).await?;
/// assert_eq!((drained.completed(), drained.failed()), (2, 1));
/// let last = drained.jobs().last().unwrap();
/// assert_eq!(last.error(), Some("odd: 3"));
/// assert_eq!(last.job.state, JobState::Retryable);
/// assert_eq!(last.job.args_as::<Halve>()?.n, 3);
///
/// // When its time has come, it fails for the last time.
/// database.advance(std::time::Duration::from_secs(3600)).await?;
/// let drained = testing::drain(runner(database.client())).await?;
/// assert_eq!(drained.discarded(), 1);
/// # Ok(()) }
/// ```
///
/// The jobs run as in the runner itself: with its workers, its retry policy and its fencing, and results are recorded.
/// A [batch worker](crate::BatchWorker) gets the available jobs of its kind at once, up to the size of its batch. Jobs that
/// run after others are released when their parents have ended.
/// There is no heartbeat, no other maintenance, no listening and no concurrency. So scheduled jobs stay scheduled until
/// [`advance`](super::advance) makes them available. The runner's periodic jobs are defined, as [`Runner::start`] does,
/// and [`advance`](super::advance) runs their slots as well.
///
/// # Errors
///
/// As for [`Runner::start`].
///
/// # Panics
///
/// After [`Drain::limit`] attempts: jobs that insert more of their kind, or snooze for no time, never end.
pub fn drain(runner: Runner) -> Drain {
    Drain { runner, is_retrying: false, limit: LIMIT }
}

/// One drain, to be awaited. Made by [`drain`].
#[derive(Debug)]
#[must_use = "a drain does nothing until it is awaited"]
pub struct Drain {
    runner: Runner,
    is_retrying: bool,
    limit: usize,
}

impl Drain {
    /// Retries failed jobs at once, until they succeed or are out of attempts. Default: failed jobs stay
    /// retryable.
    pub const fn retrying(mut self) -> Self {
        self.is_retrying = true;
        self
    }

    /// The most attempts before the drain panics. Default: 10,000.
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}

impl IntoFuture for Drain {
    type Output = Result<Drained>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { runner, is_retrying, limit } = self;
            let client = runner.client().clone();
            let mut drainer = Drainer::new(runner).await?;
            let mut jobs = Vec::new();
            loop {
                let attempted = drainer.work_next().await?;
                // Children are released when no job is left, so that one statement serves many parents.
                if attempted.is_empty() && !drainer.release_children().await? {
                    break;
                }
                for worked in attempted {
                    if is_retrying && worked.job.state == JobState::Retryable {
                        client.retry([worked.job.id]).await?;
                    }
                    jobs.push(worked);
                }
                if jobs.len() > limit {
                    drainer.end().await?;
                    panic!("the queues are not empty after {limit} attempts; the latest: {:#?}", jobs.last());
                }
            }
            drainer.end().await?;
            Ok(Drained { jobs })
        })
    }
}

/// The attempts of a drain.
#[derive(Clone, Debug)]
pub struct Drained {
    jobs: Vec<WorkedJob>,
}

impl Drained {
    /// Every attempt, in the order they were made.
    #[must_use]
    pub fn jobs(&self) -> &[WorkedJob] {
        &self.jobs
    }

    /// The attempts at jobs of one type.
    pub fn of<J: Job>(&self) -> impl Iterator<Item = &WorkedJob> {
        self.jobs.iter().filter(|worked| worked.job.kind.as_str() == J::KIND)
    }

    /// How many attempts completed their job.
    #[must_use]
    pub fn completed(&self) -> usize {
        self.count(|happened| matches!(happened, Happened::Completed))
    }

    /// How many attempts failed: their job is retryable, or was discarded.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.count(|happened| matches!(happened, Happened::Retried { .. } | Happened::Discarded { .. }))
    }

    /// How many attempts snoozed their job.
    #[must_use]
    pub fn snoozed(&self) -> usize {
        self.count(|happened| matches!(happened, Happened::Snoozed { .. }))
    }

    /// How many attempts cancelled their job.
    #[must_use]
    pub fn cancelled(&self) -> usize {
        self.count(|happened| matches!(happened, Happened::Cancelled { .. }))
    }

    /// How many attempts discarded their job: the worker discarded it, or no attempt was left.
    #[must_use]
    pub fn discarded(&self) -> usize {
        self.count(|happened| matches!(happened, Happened::Discarded { .. }))
    }

    fn count(&self, is_such: impl Fn(&Happened) -> bool) -> usize {
        self.jobs.iter().filter(|worked| is_such(&worked.happened)).count()
    }
}
