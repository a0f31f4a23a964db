//! An attempt at a job.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use uuid::Uuid;

use super::progress::{Reporter, Reports};
use super::state::States;
use super::stop::Stop;
use crate::client::Client;
use crate::words::job::JobRow;

/// One attempt at one job, shared by the runner and the worker.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) row: JobRow,
    /// The runner's lease under which it was fetched: the fence.
    pub(crate) worker: Uuid,
    pub(crate) client: Client,
    pub(crate) states: Arc<States>,
    pub(crate) stop: Arc<Stop>,
    /// Whether the row is deleted when the job completes.
    pub(crate) is_deleted: bool,
    pub(crate) reports: Arc<Reports>,
    /// Whether the worker completed it in a transaction of its own.
    pub(crate) is_completed_in: AtomicBool,
    /// Whether its result is being recorded: later progress is ignored.
    pub(crate) is_over: AtomicBool,
}

impl Attempt {
    /// The key of its progress reports.
    pub(crate) const fn reporter(&self) -> Reporter {
        Reporter { worker: self.worker, id: self.row.id, run: self.row.run }
    }
}
