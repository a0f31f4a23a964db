//! Fetches whose answers were lost: the jobs that such a fetch took run, according to the database, and no task works them.
//! They are given back.

use std::time::{Duration, Instant};

use crate::error::Result;
use crate::runner::life::lease::RunnerLease;
use crate::runner::shared::Shared;

/// How often lost jobs are looked for while there may be any.
const INTERVAL: Duration = Duration::from_secs(1);

/// Whether the database may have given this runner jobs that it does not know of. A fetch that failed can have worked
/// all the same, and can even work later, where only the connection broke.
///
/// They are looked for by the clock, and not when slots are free: the slots may be full for hours.
#[derive(Default)]
pub(in crate::runner) struct LostFetches(Option<Search>);

#[derive(Clone, Copy)]
struct Search {
    /// Until when a fetch that failed may still take jobs.
    until: Instant,
    /// When lost jobs are looked for next.
    due_at: Instant,
}

impl LostFetches {
    /// A fetch failed. Lost jobs are looked for at once.
    pub(in crate::runner) fn note_failure(&mut self, term: Duration) {
        let now = Instant::now();
        self.0 = Some(Search { until: now + term, due_at: now });
    }

    /// Whether it is time to look for lost jobs.
    pub(in crate::runner) fn is_due(&self) -> bool {
        self.0.is_some_and(|search| search.due_at <= Instant::now())
    }

    /// How long until it is time.
    pub(in crate::runner) fn due_in(&self) -> Duration {
        self.0.map_or(Duration::MAX, |search| search.due_at.saturating_duration_since(Instant::now()))
    }

    /// Whether nothing may be fetched while lost jobs cannot be looked for: new jobs could fill every slot, and the lost
    /// ones would wait for long. Not for ever, so that a database that refuses nothing else leaves no runner idle.
    pub(in crate::runner) fn block_fetches(&self) -> bool {
        self.0.is_some_and(|search| Instant::now() < search.until)
    }

    /// Gives back the jobs that are not in hand. No fetch may be under way meanwhile.
    pub(in crate::runner) async fn give_back(&mut self, shared: &Shared, lease: &RunnerLease) -> Result<()> {
        let Some(Search { until, .. }) = self.0 else { return Ok(()) };
        let began = Instant::now();
        let given_back = give_back(shared, lease).await;
        let again_at = Instant::now() + INTERVAL;
        self.0 = match given_back {
            Ok(_) if began >= until => None,
            Ok(_) => Some(Search { until, due_at: again_at.min(until) }),
            Err(_) if self.block_fetches() => self.0,
            Err(_) => Some(Search { until, due_at: again_at }),
        };
        match given_back? {
            0 => {}
            jobs => tracing::warn!(jobs, "gave back jobs of a fetch whose answer was lost"),
        }
        Ok(())
    }
}

async fn give_back(shared: &Shared, lease: &RunnerLease) -> Result<i64> {
    let in_hand = shared.runs.ids();
    shared.ask(async |store| store.give_back(lease.id, &in_hand).await).await
}
