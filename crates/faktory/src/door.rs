//! The state that all connections share.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use uniqueue::{Client, KindCache, QueueCache};

use crate::connection_limit::ConnectionLimit;
use crate::counts::Counts;
use crate::fetches::Fetches;
use crate::hello::Users;
use crate::limits::Limits;
use crate::removed::Removed;
use crate::reserved::AllReserved;
use crate::results::Results;
use crate::workers::Workers;

/// How many long lines are read and worked on at once.
const LONG_LINES: usize = 8;

/// The state that all connections share.
pub(crate) struct Door {
    pub(crate) client: Client,
    pub(crate) users: Users,
    pub(crate) limits: Limits,
    pub(crate) connection_limit: ConnectionLimit,
    pub(crate) workers: Arc<Workers>,
    pub(crate) reserved: AllReserved,
    pub(crate) kinds: KindCache,
    /// Read over a connection of its own.
    pub(crate) queues: QueueCache,
    pub(crate) removed: Removed,
    pub(crate) fetches: Fetches,
    pub(crate) results: Results,
    pub(crate) counts: Counts,
    pub(crate) long_lines: Semaphore,
    /// Cancelled at a stop.
    pub(crate) stop: CancellationToken,
}

impl Door {
    pub(crate) fn new(
        client: Client,
        users: Users,
        limits: Limits,
        fetches: Fetches,
        results: Results,
        stop: CancellationToken,
    ) -> Self {
        Self {
            kinds: KindCache::new(client.clone()),
            queues: QueueCache::new(client.with_own_pool(1)),
            removed: Removed::default(),
            client,
            users,
            limits,
            connection_limit: ConnectionLimit::new(limits.connections),
            workers: Arc::default(),
            reserved: AllReserved::default(),
            fetches,
            results,
            counts: Counts::new(),
            long_lines: Semaphore::new(LONG_LINES),
            stop,
        }
    }
}
