//! Control: stops attempts whose jobs were taken away while they run.
//!
//! Who takes a running job away notifies its runner, and the runner asks the database which of the
//! attempts in hand are still its own. It asks at each heartbeat as well, so that a notification
//! that was lost, or never sent, costs a quarter of a lease and nothing else.
//!
//! Invariants:
//! - An attempt is stopped only if it was in hand before the question was asked: what a fetch brings
//!   meanwhile was not asked about, and the stop is that attempt's own, not its successor's.
//! - A job that is taken away between its fetch and the fetch's answer is in nobody's hands when the
//!   notification comes. So a fetch during which one came asks once more.
//! - An attempt that completed its job itself, in a transaction of its own, is not stopped while it
//!   tidies up: the answer counts it as still in hand. Where completed jobs are not kept, the row is
//!   gone, and the attempt says that this may be its own doing.
//!
//! Failures: a question that fails is asked again at the next heartbeat at the latest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::PgConnection;
use tokio::sync::Notify;

use super::Shared;
use crate::error::Result;
use crate::ident::JobId;
use crate::store;
use crate::worker::{Stop, StopReason};

/// The least time between two questions, however many notifications come.
pub(super) const LEAST_WAIT: Duration = Duration::from_millis(50);

/// Where it is noted that jobs were taken away.
#[derive(Default)]
pub(super) struct Control {
    heard: AtomicU64,
    /// Wakes who asks.
    pub(super) ask: Notify,
}

impl Control {
    /// Notes that jobs were taken away from this runner, or may have been.
    pub(super) fn hear(&self) {
        self.heard.fetch_add(1, Ordering::AcqRel);
        self.ask.notify_one();
    }

    /// How often that was noted so far.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Acquire)
    }
}

/// An attempt in hand, as a question is asked about it.
pub(super) struct Held {
    pub(super) id: JobId,
    pub(super) run: u32,
    pub(super) stop: Arc<Stop>,
}

/// Asks which attempts in hand are still this runner's, and stops the others.
pub(super) async fn stop_what_is_gone(shared: &Shared, connection: &mut PgConnection) -> Result<()> {
    let worker = shared.leases.current().id;
    let mut held = shared.held_under(worker);
    if held.is_empty() {
        return Ok(());
    }
    held.sort_unstable_by_key(|held| held.id);
    let runs: Vec<_> = held.iter().map(|held| (held.id, held.run)).collect();
    let answers = store::still_held(connection, shared.client.statements(), worker, &runs).await?;
    for Held { id, stop, .. } in held {
        let is_held = answers.get(&id).copied().unwrap_or_else(|| stop.may_have_deleted());
        if !is_held {
            stop.request(StopReason::Cancelled);
        }
    }
    Ok(())
}
