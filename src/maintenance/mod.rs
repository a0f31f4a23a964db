//! What keeps the tables in order while runners work: small services, all with one contract.
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
//!   small batches under a statement timeout, so that none keeps the others waiting for long; what
//!   takes long by nature opens a connection for its run.
//! - A stop is immediate, since every statement may be dropped in its middle, and gives the leases
//!   up. A holder that is killed is followed when its term is over: a margin after its next run.
//!
//! Failures: an error is logged and costs a growing wait. A row that the database refuses to change holds up no other
//! (see [`sifting`]); where a batch takes too long, the next is smaller (see [`portion`]). A runner that cannot extend its
//! lease goes back to waiting for it.

mod connection;
mod periodic;
mod portion;
mod promoter;
mod pruner;
mod reindexer;
mod rescuer;
mod sifting;
mod tenure;
mod walk;

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub(crate) use self::connection::SharedConnection;
pub(crate) use self::periodic::Periodic;
pub(crate) use self::promoter::Promoter;
pub(crate) use self::pruner::Pruner;
pub(crate) use self::reindexer::Reindexer;
pub(crate) use self::rescuer::Rescuer;
pub(crate) use self::tenure::Holder;

use self::tenure::Tenure;
use crate::error::{Error, Result};

/// How many rows a service takes in one statement at most.
const BATCH: i64 = 1_000;

/// The waits for a lease that is another's, at the least and at the most.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The longest that a turn may take: the server ends each statement after half of it, so what takes
/// longer is not answered any more, or can go on in the next turn.
const LONGEST_TURN: Duration = Duration::from_secs(10);

/// The waits after failures.
const FIRST_FAILURE_WAIT: Duration = Duration::from_millis(100);
const LONGEST_FAILURE_WAIT: Duration = Duration::from_secs(5);

/// How long a stop waits for the database to take a lease back. Without it the lease runs out.
const RELEASE_WAIT: Duration = Duration::from_secs(2);

/// A maintenance service.
pub(crate) trait Service: Send {
    /// As in the table `maintenance`.
    const NAME: &'static str;

    /// How long a turn may take before the shared connection counts as silent.
    const LONGEST_TURN: Duration = LONGEST_TURN;

    /// How long after its next run the lease runs out: how late another follows a holder that was
    /// killed.
    fn margin(&self) -> Duration;

    /// Runs once. Answers how long to rest before the next run; not at all: there is more to do.
    fn run_once(&mut self, holder: &Holder) -> impl Future<Output = Result<Duration>> + Send;
}

/// Offers to do a service, and does it whenever it has the lease, until stopped.
pub(crate) async fn serve<S: Service>(mut service: S, holder: Holder, stop: CancellationToken) {
    let mut tenure = Tenure::new(S::NAME, holder);
    tokio::select! {
        () = stop.cancelled() => {}
        never = work(&mut service, &mut tenure) => match never {},
    }
    match tokio::time::timeout(RELEASE_WAIT, tenure.release()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(service = S::NAME, %error, "lease not given up: it runs out"),
        Err(_) => tracing::debug!(service = S::NAME, "lease not given up in time: it runs out"),
    }
}

async fn work<S: Service>(service: &mut S, tenure: &mut Tenure) -> Infallible {
    let mut failure_wait = FIRST_FAILURE_WAIT;
    loop {
        let turned = tokio::time::timeout(S::LONGEST_TURN, turn(service, tenure)).await;
        let mut failed = || {
            let wait = failure_wait;
            failure_wait = (wait * 2).min(LONGEST_FAILURE_WAIT);
            wait
        };
        let wait = match turned {
            Ok(Ok(wait)) => {
                failure_wait = FIRST_FAILURE_WAIT;
                wait
            }
            Ok(Err(error)) => {
                tracing::warn!(service = S::NAME, %error, "maintenance failed, trying again");
                // Somebody holds the connection for longer than anything takes that is answered; or it leads to a server
                // that says no to everything, as a primary that became a standby, and another leads to the new one.
                if matches!(error, Error::Database(sqlx::Error::PoolTimedOut)) || error.is_of_server() {
                    tenure.holder().connection.cut();
                }
                failed()
            }
            Err(_) => {
                tracing::warn!(service = S::NAME, "maintenance failed: no answer; trying again");
                tenure.holder().connection.cut();
                failed()
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Runs once, if the lease is to be had. Answers how long to wait then.
async fn turn<S: Service>(service: &mut S, tenure: &mut Tenure) -> Result<Duration> {
    if tenure.left().is_zero()
        && let Some(free_in) = tenure.take(service.margin()).await?
    {
        return Ok(free_in.clamp(SHORTEST_WAIT, LONGEST_WAIT));
    }
    let rest = service.run_once(tenure.holder()).await?;
    // Sparsely: where runs are frequent, not with every one.
    if tenure.left() < rest + service.margin() / 4 {
        tenure.take(rest + service.margin()).await?;
    }
    Ok(rest)
}
