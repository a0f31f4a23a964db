//! Maintenance: small services that keep the tables in order while runners work, all with one contract.
//!
//! ```text
//! wait for the lease ─▶ run once ─▶ rest (as long as the run said) ─▶ run once ─▶ …
//!        ▲ ───────────── taken over ◀──────┘ extend when little of the term is left
//! ```
//!
//! Invariants:
//! - Correctness never depends on a lease: rows are locked with SKIP LOCKED, finishes are fenced,
//!   slots are keyed. Two holders at once cost double and do no harm.
//! - Services share one connection of the runner's own, never the application's pool. They work in
//!   small batches under a statement timeout, so that none blocks the others for long. A service
//!   with long statements opens a connection for its run.
//! - A stop is immediate, since every statement may be cancelled, and releases the leases. The lease
//!   of a holder that is killed ends by itself: a margin after its next run.
//!
//! Failures: an error is logged and costs a growing wait. A row that the database refuses to change blocks no other
//! row (see [`step`]). After a batch that takes too long, the next is smaller (see [`batch_size`]). A runner that cannot
//! extend its lease goes back to waiting for it.

mod batch_size;
mod connection;
mod id_ranges;
mod lease;
mod periodic;
mod promoter;
mod pruner;
mod reindexer;
mod rescuer;
mod set_aside;
mod step;

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub(crate) use self::connection::SharedConnection;
pub(crate) use self::lease::Holder;
pub(crate) use self::periodic::Periodic;
pub(crate) use self::promoter::Promoter;
pub(crate) use self::pruner::Pruner;
pub(crate) use self::reindexer::Reindexer;
pub(crate) use self::rescuer::Rescuer;

use self::lease::Lease;
use crate::error::{Error, Result};

/// The most rows that a service takes in one statement.
const BATCH: i64 = 1_000;

/// The waits for a lease that another holder has, at the least and at the most.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The longest that a run may take. The server ends each statement after half of it, so a run that takes longer gets no
/// answer any more, or can go on in the next run.
const LONGEST_RUN: Duration = Duration::from_secs(10);

/// The waits after failures.
const FIRST_FAILURE_WAIT: Duration = Duration::from_millis(100);
const LONGEST_FAILURE_WAIT: Duration = Duration::from_secs(5);

/// How long a stop waits for the database to release a lease. Without an answer the lease expires.
const RELEASE_WAIT: Duration = Duration::from_secs(2);

/// A maintenance service.
pub(crate) trait Service: Send {
    /// As in the table `maintenance`.
    const NAME: &'static str;

    /// How long a run may take before the shared connection counts as dead.
    const LONGEST_RUN: Duration = LONGEST_RUN;

    /// How long after its next run the lease expires: how late another runner takes over from a holder that was killed.
    fn margin(&self) -> Duration;

    /// Runs once. Returns how long to rest before the next run. Zero: there is more to do.
    fn run_once(&mut self, holder: &Holder) -> impl Future<Output = Result<Duration>> + Send;
}

/// Waits for the lease of a service and runs the service while it has the lease, until stopped.
pub(crate) async fn serve<S: Service>(mut service: S, holder: Holder, stop: CancellationToken) {
    let mut lease = Lease::new(S::NAME, holder);
    tokio::select! {
        () = stop.cancelled() => {}
        never = run_repeatedly(&mut service, &mut lease) => match never {},
    }
    match tokio::time::timeout(RELEASE_WAIT, lease.release()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(service = S::NAME, %error, "lease not released: it expires by itself"),
        Err(_) => tracing::debug!(service = S::NAME, "lease not released in time: it expires by itself"),
    }
}

async fn run_repeatedly<S: Service>(service: &mut S, lease: &mut Lease) -> Infallible {
    let mut failure_wait = FIRST_FAILURE_WAIT;
    loop {
        let ran = tokio::time::timeout(S::LONGEST_RUN, run_if_leased(service, lease)).await;
        let mut failed = || {
            let wait = failure_wait;
            failure_wait = (wait * 2).min(LONGEST_FAILURE_WAIT);
            wait
        };
        let wait = match ran {
            Ok(Ok(wait)) => {
                failure_wait = FIRST_FAILURE_WAIT;
                wait
            }
            Ok(Err(error)) => {
                tracing::warn!(service = S::NAME, %error, "maintenance failed, trying again");
                // Another service has the connection for longer than an answer can take. Or the server refuses every
                // statement, as a primary that became a standby does, and a new connection leads to the new primary.
                if matches!(error, Error::Database(sqlx::Error::PoolTimedOut)) || error.is_of_server() {
                    lease.holder().connection.replace();
                }
                failed()
            }
            Err(_) => {
                tracing::warn!(service = S::NAME, "maintenance failed: no answer; trying again");
                lease.holder().connection.replace();
                failed()
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Runs once if the lease is held or free. Returns how long to wait before the next call.
async fn run_if_leased<S: Service>(service: &mut S, lease: &mut Lease) -> Result<Duration> {
    if lease.left().is_zero()
        && let Some(free_in) = lease.take(service.margin()).await?
    {
        return Ok(free_in.clamp(SHORTEST_WAIT, LONGEST_WAIT));
    }
    let rest = service.run_once(lease.holder()).await?;
    // Not after every run, which would be a write each where runs are frequent.
    if lease.left() < rest + service.margin() / 4 {
        lease.take(rest + service.margin()).await?;
    }
    Ok(rest)
}
