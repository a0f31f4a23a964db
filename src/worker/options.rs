//! Options of a worker.

use std::time::Duration;

use crate::words::retry::RetryPolicy;

/// Options of one worker, given to [`Runner::worker_with`](crate::Runner::worker_with) and
/// [`Runner::batch_worker`](crate::Runner::batch_worker). They come before the worker's own
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
#[derive(Clone, Debug)]
#[must_use]
pub struct WorkerOptions {
    pub(super) timeout: Option<Duration>,
    pub(super) retry_policy: Option<RetryPolicy>,
    pub(super) queue: Option<String>,
    pub(super) batch_size: usize,
    pub(super) batch_wait: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl WorkerOptions {
    /// No options: the settings of the worker and the runner apply.
    pub const fn new() -> Self {
        let (batch_size, batch_wait) = (100, Duration::from_millis(100));
        Self { timeout: None, retry_policy: None, queue: None, batch_size, batch_wait }
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

    /// The most jobs of a batch, of a [`BatchWorker`](crate::BatchWorker); 0 means 1. A full batch is worked at once. Default: 100.
    pub const fn batch_size(mut self, jobs: usize) -> Self {
        self.batch_size = if jobs == 0 { 1 } else { jobs };
        self
    }

    /// How long the first job of a batch waits for more jobs. The wait counts towards the timeout of the job. A runner that
    /// stops does not wait longer than this. Default: 100 ms.
    pub const fn batch_wait(mut self, wait: Duration) -> Self {
        self.batch_wait = wait;
        self
    }

    /// When failed jobs try again.
    pub const fn retry_policy(mut self, retry_policy: RetryPolicy) -> Self {
        self.retry_policy = Some(retry_policy);
        self
    }
}
