//! A running job of any kind, for middleware and for workers of several kinds.

use std::sync::Arc;

use super::attempt::Attempt;
use super::stop::StopReason;
use crate::client::Client;
use crate::error::Result;
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::job::JobRow;

/// A running job of any kind: the argument of a [`Middleware`](crate::Middleware), and of a worker of several kinds
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

    /// The client of the runner.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.attempt.client
    }

    /// The runner's value of this type.
    ///
    /// # Errors
    ///
    /// [`Error::MissingState`](crate::Error::MissingState) when the runner was given none.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<&T> {
        self.attempt.states.of()
    }

    /// Resolves when the work should stop, with the reason.
    pub async fn stopped(&self) -> StopReason {
        self.attempt.stop.requested().await
    }
}
