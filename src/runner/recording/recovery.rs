//! Recovery from a statement that failed: it may have worked, and only its answer was lost.
//!
//! - A fetch: the jobs that it took run, according to the database, and no task works them. [`LostFetches`] gives
//!   them back.
//! - A result: the job may be completed already, as it may be by a worker in a transaction of its own. The row tells.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::rejected::is_refusal;
use super::result::Ended;
use crate::error::{Error, Result};
use crate::runner::life::lease::RunnerLease;
use crate::runner::shared::Shared;
use crate::store::{self, FinishedStates, Verdict};
use crate::words::ident::JobId;

/// How often lost jobs are looked for while there may be any.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long results wait for the answer whether their jobs are completed. They hold up other results meanwhile, and a
/// lease may have been lost because the database gives no answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

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
    let mut connection = shared.connections.connection().await?;
    let giving_back = store::give_back(&mut connection, shared.client.statements(), lease.id, &in_hand);
    let given_back = shared.connections.answer(giving_back).await;
    connection.settle(given_back)
}

/// Notes that sending these results failed, perhaps only after they were recorded.
pub(in crate::runner) fn note_failed_send(batch: &mut [Ended], error: &Error) {
    // A statement that the server refused did nothing.
    if is_refusal(error) || error.is_lock_timeout() {
        return;
    }
    for ended in batch {
        ended.may_be_completed |= matches!(ended.result.verdict, Verdict::Complete { .. });
    }
}

/// Finds out which jobs were completed already, of those whose results did not count.
pub(in crate::runner) async fn find_completed(shared: &Shared, batch: &mut [Ended], finished: &FinishedStates) {
    let ids = in_question(batch, |ended| !finished.contains_key(&ended.result.id));
    if ids.is_empty() {
        return;
    }
    match tokio::time::timeout(ANSWER_TIMEOUT, not_completed(shared, &ids)).await {
        Ok(Ok(open)) => correct(batch, |id| !open.contains(&id)),
        // Most are completed.
        Ok(Err(error)) => tracing::debug!(%error, "could not ask which jobs were completed already"),
        Err(_) => tracing::debug!("could not ask which jobs were completed already: no answer"),
    }
}

/// The same of results that are not sent any more. Without an answer none of them counts.
pub(in crate::runner) async fn find_completed_of_lost(shared: &Shared, batch: &mut [Ended]) {
    let ids = in_question(batch, |_| true);
    if ids.is_empty() {
        return;
    }
    let open = tokio::time::timeout(ANSWER_TIMEOUT, not_completed(shared, &ids)).await;
    correct(batch, |id| matches!(&open, Ok(Ok(open)) if !open.contains(&id)));
}

fn in_question(batch: &[Ended], is_asked: impl Fn(&Ended) -> bool) -> Vec<uuid::Uuid> {
    let asked = batch.iter().filter(|ended| ended.may_be_completed && is_asked(ended));
    asked.map(|ended| ended.result.id.as_uuid()).collect()
}

fn correct(batch: &mut [Ended], is_completed: impl Fn(JobId) -> bool) {
    for ended in batch {
        ended.may_be_completed &= is_completed(ended.result.id);
    }
}

/// The jobs that exist and are not completed. A job that is gone was deleted as it was completed.
async fn not_completed(shared: &Shared, ids: &[uuid::Uuid]) -> Result<HashSet<JobId>> {
    let mut connection = shared.connections.connection().await?;
    let asking = store::not_completed(&mut connection, shared.client.statements(), ids);
    let open = shared.connections.answer(asking).await;
    connection.settle(open)
}

/// A wait that doubles with each failure in a row, from 50 ms to 5 s.
pub(crate) struct GrowingWait {
    next: Duration,
}

impl GrowingWait {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(5);

    pub(crate) const fn new() -> Self {
        Self { next: Self::FIRST }
    }

    pub(crate) fn reset(&mut self) {
        self.next = Self::FIRST;
    }

    pub(crate) fn grow(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(Self::LONGEST);
        wait
    }
}
