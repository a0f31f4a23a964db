//! The state that all requests share.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::Request;
use tokio_util::task::AbortOnDropHandle;
use uniqueue::Client;
use uniqueue_admin::{KindCache, QueueCache};
use uniqueue_remote::SharedResults;

use crate::rate_limit::SetRates;
use crate::reservations::Runs;
use crate::store::Store;

/// The rights of a request, which the function of [`Ojs::access`](crate::Ojs::access) returns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Access {
    /// Nothing but the health check.
    None,
    /// Reading: every GET.
    Read,
    /// Everything.
    All,
}

/// See [`Ojs::access`](crate::Ojs::access).
pub(crate) type AccessFn = dyn Fn(&Request) -> Access + Send + Sync;

/// The state that all requests share.
pub(crate) struct Door {
    pub(crate) client: Client,
    /// For lists and counts, which take no connection of inserts, fetches and reports.
    pub(crate) reads: Client,
    pub(crate) queues: QueueCache,
    pub(crate) store: Store,
    pub(crate) access: Arc<AccessFn>,
    pub(crate) runs: Arc<Runs>,
    pub(crate) results: SharedResults,
    /// The tasks that end late runs and note the ends of workflows.
    pub(crate) _tasks: [AbortOnDropHandle<()>; 2],
    pub(crate) kinds: KindCache,
    pub(crate) set_rates: SetRates,
    pub(crate) started_at: Instant,
    /// When the database was asked last, and how long its answer took. `None`: it did not answer.
    pub(crate) health: Mutex<Option<(Instant, Option<Duration>)>>,
}
