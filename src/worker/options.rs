//! Options of a worker.

use std::time::Duration;

use crate::words::retry::RetryPolicy;

/// Options of one worker, given to [`Runner::worker_with`](crate::Runner::worker_with). They come before the worker's own
/// settings, and those before the runner's.
///
/// ```no_run
/// # use std::time::Duration;
/// # use serde::{Deserialize, Serialize};
/// # use uniqueue::{Client, Job, RetryPolicy, Runner, RunningJob, WorkerOptions};
/// # #[derive(Serialize, Deserialize, Job)]
/// # #[job(kind = "email.send", queue = "emails")]
/// # struct SendEmail { to: String }
/// async fn send_email(job: RunningJob<SendEmail>) -> Result<(), std::io::Error> {
///     println!("to {}", job.args.to);
///     Ok(())
/// }
///
/// # fn build(client: Client) -> Runner {
/// let careful = WorkerOptions::new()
///     .timeout(Duration::from_secs(30))
///     .retry_policy(RetryPolicy::exponential().first(Duration::from_secs(10)));
/// Runner::new(client).queue("emails", 20).worker_with(send_email, careful)
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct WorkerOptions {
    pub(super) timeout: Option<Duration>,
    pub(super) retry_policy: Option<RetryPolicy>,
    pub(super) queue: Option<String>,
}

impl WorkerOptions {
    /// No options: the settings of the worker and the runner apply.
    pub const fn new() -> Self {
        Self { timeout: None, retry_policy: None, queue: None }
    }

    /// How long a job may run, counted from the start of its work: see
    /// [`Worker::timeout`](crate::Worker::timeout). `Duration::MAX`: no limit.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The queue into which the jobs of this kind are inserted, where inserts name another than the kind's own. A runner
    /// that works neither queue does not start.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// When failed jobs try again.
    pub const fn retry_policy(mut self, retry_policy: RetryPolicy) -> Self {
        self.retry_policy = Some(retry_policy);
        self
    }
}
