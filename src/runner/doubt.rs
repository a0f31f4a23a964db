//! What to do about a fetch that failed: it can have worked all the same.

use std::time::{Duration, Instant};

use super::Shared;
use super::lease::Lease;
use crate::store;

/// Whether the database may have given this runner jobs that it does not know of. A fetch that
/// failed can have worked all the same, and can even work later, where only the connection broke.
#[derive(Default)]
pub(super) struct Doubt {
    until: Option<Instant>,
}

impl Doubt {
    pub(super) fn begin(&mut self, term: Duration) {
        self.until = Some(Instant::now() + term);
    }

    pub(super) const fn is_in(&self) -> bool {
        self.until.is_some()
    }

    /// Gives back what is not in hand. Nothing may be on its way meanwhile.
    pub(super) async fn resolve(&mut self, shared: &Shared, lease: &Lease) {
        let Some(until) = self.until else { return };
        let is_last = Instant::now() >= until;
        let in_hand = shared.jobs_in_hand();
        let given_back = async {
            let mut connection = shared.desk.connection().await?;
            let giving_back = store::give_back(&mut connection, shared.client.statements(), lease.id, &in_hand);
            let given_back = shared.desk.answer(giving_back).await;
            connection.settle(given_back)
        };
        match given_back.await {
            Ok(0) => {}
            Ok(jobs) => tracing::warn!(jobs, "gave back jobs of a fetch whose answer was lost"),
            Err(error) => {
                tracing::debug!(%error, "could not look for lost jobs yet");
                return;
            }
        }
        if is_last {
            self.until = None;
        }
    }
}
