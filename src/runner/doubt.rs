//! What to do about a fetch that failed: it can have worked all the same.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::Shared;
use super::lease::Lease;
use crate::error::Result;
use crate::store;

/// How often lost jobs are looked for while there may be any.
const INTERVAL: Duration = Duration::from_secs(1);

/// Whether the database may have given this runner jobs that it does not know of. A fetch that
/// failed can have worked all the same, and can even work later, where only the connection broke.
///
/// They are looked for by the clock, and not when somebody wants jobs: the slots may be full for hours.
#[derive(Default)]
pub(super) struct Doubt(Option<Times>);

#[derive(Clone, Copy)]
struct Times {
    /// Until when a fetch that failed may still come to pass.
    until: Instant,
    /// When lost jobs are looked for next.
    due_at: Instant,
}

impl Doubt {
    /// A fetch failed. Lost jobs are looked for at once.
    pub(super) fn begin(&mut self, term: Duration) {
        let now = Instant::now();
        self.0 = Some(Times { until: now + term, due_at: now });
    }

    pub(super) const fn is_in(&self) -> bool {
        self.0.is_some()
    }

    /// Whether it is time to look for lost jobs.
    pub(super) fn is_due(&self) -> bool {
        self.0.is_some_and(|times| times.due_at <= Instant::now())
    }

    /// Waits until it is. Without a doubt that is for ever.
    pub(super) async fn due(&self) {
        tokio::time::sleep(self.due_in()).await;
    }

    /// How long until it is.
    pub(super) fn due_in(&self) -> Duration {
        self.0.map_or(Duration::MAX, |times| times.due_at.saturating_duration_since(Instant::now()))
    }

    /// Whether nothing may be fetched while lost jobs cannot be looked for: what comes could fill every slot, and they
    /// would lie there for long. Not for ever, so that a database that refuses nothing else leaves no runner idle.
    pub(super) fn holds_back(&self) -> bool {
        self.0.is_some_and(|times| Instant::now() < times.until)
    }

    /// Gives back what is not in hand. Nothing may be on its way meanwhile.
    pub(super) async fn resolve(&mut self, shared: &Shared, lease: &Lease) -> Result<()> {
        let Some(Times { until, .. }) = self.0 else { return Ok(()) };
        let began = Instant::now();
        let in_hand = shared.jobs_in_hand();
        let given_back = give_back(shared, lease, &in_hand).await;
        let again_at = Instant::now() + INTERVAL;
        self.0 = match given_back {
            Ok(_) if began >= until => None,
            Ok(_) => Some(Times { until, due_at: again_at.min(until) }),
            Err(_) if self.holds_back() => self.0,
            Err(_) => Some(Times { until, due_at: again_at }),
        };
        match given_back? {
            0 => {}
            jobs => tracing::warn!(jobs, "gave back jobs of a fetch whose answer was lost"),
        }
        Ok(())
    }
}

async fn give_back(shared: &Shared, lease: &Lease, in_hand: &[Uuid]) -> Result<i64> {
    let mut connection = shared.desk.connection().await?;
    let giving_back = store::give_back(&mut connection, shared.client.statements(), lease.id, in_hand);
    let given_back = shared.desk.answer(giving_back).await;
    connection.settle(given_back)
}
