//! A service and its loop: take the lease, run, rest.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::connection::LONGEST_RUN;
use super::lease::{Holder, ServiceLease};
use crate::client::connections::growing_wait::GrowingWait;
use crate::error::{Error, Result};

/// The waits for a lease that another holder has, at the least and at the most.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How long a stop waits for the database to release a lease. Without an answer the lease expires.
const RELEASE_WAIT: Duration = Duration::from_secs(2);

/// A maintenance service.
pub(crate) trait Service: Send {
    /// As in the table `maintenance`.
    fn name(&self) -> &'static str;

    /// How long a run may take before the shared connection counts as dead.
    const LONGEST_RUN: Duration = LONGEST_RUN;

    /// How long after its next run the lease expires: how late another runner takes over from a holder that was killed.
    fn margin(&self) -> Duration;

    /// Runs once. Returns how long to rest before the next run. Zero: there is more to do.
    fn run_once(&mut self, holder: &Holder) -> impl Future<Output = Result<Duration>> + Send;

    /// Rests for this time, or until there may be something to do.
    fn rest(&self, wait: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(wait)
    }
}

/// Waits for the lease of a service and runs the service while it has the lease, until stopped.
pub(crate) async fn serve<S: Service>(mut service: S, holder: Holder, stop: CancellationToken) {
    let mut lease = ServiceLease::new(service.name(), holder);
    tokio::select! {
        () = stop.cancelled() => {}
        never = run_repeatedly(&mut service, &mut lease) => match never {},
    }
    match tokio::time::timeout(RELEASE_WAIT, lease.release()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(service = service.name(), %error, "lease not released: it expires by itself"),
        Err(_) => tracing::debug!(service = service.name(), "lease not released in time: it expires by itself"),
    }
}

async fn run_repeatedly<S: Service>(service: &mut S, lease: &mut ServiceLease) -> Infallible {
    let mut failure_wait = GrowingWait::new();
    loop {
        let ran = tokio::time::timeout(S::LONGEST_RUN, run_if_leased(service, lease)).await;
        let wait = match ran {
            Ok(Ok(wait)) => {
                failure_wait.reset();
                wait
            }
            Ok(Err(error)) => {
                tracing::warn!(service = service.name(), %error, "maintenance failed, trying again");
                // Another service has the connection for longer than an answer can take. Or its session is at fault: a
                // primary that became a standby refuses everything, and a new connection leads to the new primary.
                if matches!(error, Error::Database(sqlx::Error::PoolTimedOut)) || error.is_of_session() {
                    lease.holder().connection.replace();
                }
                failure_wait.grow()
            }
            Err(_) => {
                tracing::warn!(service = service.name(), "maintenance failed: no answer; trying again");
                lease.holder().connection.replace();
                failure_wait.grow()
            }
        };
        service.rest(wait).await;
    }
}

/// Runs once if the lease is held or free. Returns how long to wait before the next call.
async fn run_if_leased<S: Service>(service: &mut S, lease: &mut ServiceLease) -> Result<Duration> {
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
