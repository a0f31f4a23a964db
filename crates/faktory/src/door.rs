//! The state that all connections share.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use uniqueue::Client;
use uniqueue_admin::{KindCache, QueueCache, QueueInfo};
use uniqueue_remote::SharedResults;

use crate::fetches::Fetches;
use crate::hello::Users;
use crate::limits::{ConnectionLimit, Limits};
use crate::reserved::AllReserved;
use crate::workers::Workers;

/// How many long lines are read and worked on at once.
pub(crate) const LONG_LINES: usize = 8;

/// The state that all connections share.
pub(crate) struct Door {
    pub(crate) client: Client,
    pub(crate) users: Users,
    pub(crate) limits: Limits,
    pub(crate) connection_limit: ConnectionLimit,
    pub(crate) workers: Workers,
    pub(crate) reserved: AllReserved,
    pub(crate) kinds: KindCache,
    /// Read over a connection of its own.
    pub(crate) queues: QueueCache,
    pub(crate) removed: Removed,
    pub(crate) fetches: Fetches,
    pub(crate) results: SharedResults,
    pub(crate) counts: Counts,
    pub(crate) started_at: Instant,
    pub(crate) long_lines: Semaphore,
    /// Cancelled at a stop.
    pub(crate) stop: CancellationToken,
}

/// The counts of this process since it started.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) commands: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// Attempts that ended, failed ones among them.
    pub(crate) processed: AtomicU64,
    pub(crate) failures: AtomicU64,
}

/// The most names of removed queues that are remembered.
const MOST_REMOVED: usize = 10_000;

/// Queues that a client removed. They are not listed until they have waiting jobs again.
#[derive(Debug, Default)]
pub(crate) struct Removed(Mutex<HashSet<String>>);

impl Removed {
    pub(crate) fn add(&self, name: &str) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= MOST_REMOVED {
            names.clear();
        }
        names.insert(name.to_owned());
    }

    /// Whether a queue is listed.
    pub(crate) fn lists(&self, queue: &QueueInfo) -> bool {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.available.counted() > 0 {
            names.remove(queue.settings.name.as_str());
        }
        !names.contains(queue.settings.name.as_str())
    }
}
