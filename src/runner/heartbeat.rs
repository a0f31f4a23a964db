//! The heartbeat: extends the lease four times a term, and starts a new life when it was lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::Shared;
use super::lease::Lease;
use crate::error::Result;
use crate::store;
use crate::worker::StopReason;

pub(super) async fn beat(shared: Arc<Shared>, closing: CancellationToken) {
    let term = shared.leases.term;
    let mut extended_at = Instant::now();
    loop {
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(term / 4) => {}
        }
        let asked_at = Instant::now();
        // A database that does not answer in time is as bad as one that says no.
        let answer = tokio::select! {
            () = closing.cancelled() => return,
            answer = tokio::time::timeout(term / 4, extend(&shared)) => answer,
        };
        let is_lost = match answer {
            Ok(Ok(true)) => {
                extended_at = asked_at;
                false
            }
            Ok(Ok(false)) => true,
            Ok(Err(error)) => {
                tracing::warn!(%error, "heartbeat failed");
                extended_at.elapsed() >= term
            }
            Err(_) => extended_at.elapsed() >= term,
        };
        if is_lost && renew(&shared, term).await {
            extended_at = Instant::now();
        }
    }
}

async fn extend(shared: &Shared) -> Result<bool> {
    let mut connection = shared.pulse.acquire().await?;
    let id = shared.leases.current().id;
    store::extend_lease(&mut connection, shared.client.statements(), id, shared.leases.term).await
}

/// Stops the jobs of the lost lease, which are another's by now, and goes on under a new one.
async fn renew(shared: &Shared, term: Duration) -> bool {
    shared.leases.current().lose();
    shared.stop_all(StopReason::LeaseLost);
    let leases = &shared.leases;
    let taken = Lease::take(&shared.pulse, shared.client.statements(), &leases.name, &leases.queues, term);
    match tokio::time::timeout(term / 4, taken).await {
        Ok(Ok(lease)) => {
            leases.replace(lease);
            shared.freed.notify_one();
            true
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "no new lease yet");
            false
        }
        Err(_) => false,
    }
}
