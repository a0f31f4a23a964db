//! The runner: fetches jobs, works them, and records how they ended.
//!
//! ```text
//! notify ─▶ producer ──fetch──▶ executor (one task a job) ──result──▶ completer ──batch──▶ database
//!              ▲  free slots ◀──────┘
//! heartbeat: extends the lease; maintenance: promotes, rescues, prunes
//! ```
//!
//! Invariants:
//! - A job is worked only under a live lease. Every result carries the lease's id and the attempt,
//!   and the database drops it when the job is no longer that attempt's.
//! - A result that reached the completer is sent until the database took it, or the lease is lost.
//! - Everything that was started is awaited at the stop.
//!
//! Failures: while the database is away, fetches and results are tried again with a growing wait;
//! a lease that could not be extended in time counts as lost, its jobs are stopped, and the runner
//! goes on under a new lease.

mod builder;
mod completer;
mod executor;
mod handle;
mod heartbeat;
mod lease;
mod producer;
mod shutdown;

pub use self::builder::Runner;
pub use self::handle::RunnerHandle;
pub use self::shutdown::shutdown_signal;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::PgPool;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::completer::Ended;
use self::lease::Leases;
use crate::client::Client;
use crate::ident::QueueName;
use crate::retry::RetryPolicy;
use crate::worker::Registry;

/// What the parts of one runner share.
struct Shared {
    client: Client,
    /// One connection of the runner's own, so that a full pool cannot cost it its lease.
    control: PgPool,
    leases: Leases,
    queues: Vec<QueueSlots>,
    workers: Registry,
    /// The kinds that have a worker here. Others are left to other runners.
    kinds: Vec<String>,
    retry_policy: RetryPolicy,
    poll_interval: Duration,
    is_listening: bool,
    /// Wakes the producer: a notification came.
    wake: Arc<Notify>,
    /// Wakes the producer: a slot is free again.
    freed: Notify,
    /// Stop fetching.
    stopping: CancellationToken,
    /// No more results will come.
    drained: CancellationToken,
    ended: mpsc::UnboundedSender<Ended>,
    attempts: TaskTracker,
}

/// A queue that the runner works, and how much of it at once.
struct QueueSlots {
    name: QueueName,
    concurrency: usize,
    running: AtomicUsize,
}

impl QueueSlots {
    fn free(&self) -> usize {
        self.concurrency.saturating_sub(self.running.load(Ordering::Acquire))
    }
}

impl Shared {
    fn queue(&self, name: &QueueName) -> Option<&QueueSlots> {
        self.queues.iter().find(|queue| queue.name == *name)
    }
}

/// A wait that doubles with each failure in a row.
struct GrowingWait {
    next: Duration,
}

impl GrowingWait {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(5);

    const fn new() -> Self {
        Self { next: Self::FIRST }
    }

    fn reset(&mut self) {
        self.next = Self::FIRST;
    }

    fn grow(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(Self::LONGEST);
        wait
    }
}
