//! Recovery from fetches that failed: later fetches leave out the job or the queue that may be the reason.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::failing_queues::FailingQueues;
use super::fetch::{FetchResult, Wanted, wanted};
use super::groups;
use super::job_limit::JobLimit;
use super::set_aside::SetAside;
use super::shared::Shared;
use super::suspects::Plan;
use crate::client::time_limit;
use crate::error::Error;
use crate::store::{self, GroupVisit, QueueDemand, SuspectLimit};

/// The producer's memory of fetches that failed.
pub(super) struct Failures {
    limit: JobLimit,
    aside: SetAside,
    queues: FailingQueues,
    /// Whether the last fetch was of one job alone: the next one is of the others.
    was_alone: bool,
}

impl Failures {
    pub(super) fn new() -> Self {
        Self { limit: JobLimit::none(), aside: SetAside::default(), queues: FailingQueues::default(), was_alone: false }
    }

    /// The jobs to fetch next.
    pub(super) fn wanted(&mut self, shared: &Shared, plan: Plan) -> Wanted {
        let now = Instant::now();
        if let Some(wanted) = self.alone(shared, plan, now) {
            self.was_alone = true;
            return wanted;
        }
        self.was_alone = false;
        let mut wanted = wanted(shared, plan);
        if self.queues.choose(&mut wanted.slots, now) {
            wanted.limit = Some(shared.connections.timeout() / 2);
        }
        self.limit.apply(&mut wanted.slots);
        // A suspect that runs alone may be one that is fetched alone.
        wanted.except = if plan == Plan::Alone { self.aside.ids_but_to_fetch() } else { self.aside.ids(None) };
        wanted
    }

    /// One job that is fetched alone, in turn with the others.
    fn alone(&self, shared: &Shared, plan: Plan, now: Instant) -> Option<Wanted> {
        let Plan::Open { suspects, .. } = plan else { return None };
        if self.was_alone || shared.is_full_of_results() {
            return None;
        }
        let is_idle = |name: &_| shared.queue(name).is_some_and(super::slots::QueueSlots::is_idle);
        let alone = self.aside.next_alone(now, is_idle)?;
        let groups = GroupVisit { most: groups::MOST_ALONE, ..shared.groups.visit(&alone.queue, 1, now) };
        let slots = vec![QueueDemand { queue: alone.queue.clone(), free: 1, idle: 1, groups }];
        // The first try is a short one, so that the others wait for less than a lease in all.
        let limit = (!alone.is_last).then(|| shared.connections.timeout() / 2);
        let except = self.aside.ids(Some(&alone));
        Some(Wanted { slots, suspects: SuspectLimit::AtMost(suspects), except, alone: Some(alone), limit })
    }

    /// How long until something is to be done that no slot waits for.
    pub(super) fn due_in(&self) -> Duration {
        let now = Instant::now();
        self.aside.due_in(now).min(self.queues.due_in(now))
    }

    /// Tries the jobs again that are set aside.
    pub(super) async fn tend(&mut self, shared: &Shared, worker: Uuid) {
        if let Err(error) = self.aside.tend(shared, worker).await {
            tracing::warn!(%error, "could not try jobs again that are set aside");
        }
    }

    /// Notes a fetch that worked.
    pub(super) fn note_success(&mut self, wanted: &Wanted, found: &FetchResult) {
        self.limit.note(found.jobs, found.bytes);
        self.queues.note_success(&wanted.slots);
        if let Some(alone) = &wanted.alone {
            self.aside.fetched_alone(alone, found.jobs, found.has_alone);
        }
    }

    /// Looks for what made a fetch fail after so long. Answers whether the next one may work.
    pub(super) async fn mend(
        &mut self,
        shared: &Shared,
        worker: Uuid,
        wanted: &Wanted,
        error: &Error,
        took: Duration,
    ) -> bool {
        let is_slow = is_too_slow(error);
        // A row that is larger than an answer can be is refused, or does not come in time.
        let may_be_size = is_slow || is_of_values(error);
        if !is_slow && !is_of_statement(error) {
            return false;
        }
        let found = match self.aside.find(shared, worker, &wanted.slots, may_be_size).await {
            Ok(found) => found,
            // The database may be at fault, and no job.
            Err(error) => {
                tracing::warn!(%error, "could not look for the job because of which a fetch failed");
                if let Some(alone) = &wanted.alone {
                    self.aside.postpone(alone);
                }
                // A queue that cannot be read may be at fault, such as one with a damaged index page.
                if error.is_of_server() {
                    return false;
                }
                self.queues.note_failure(&wanted.slots, took, Instant::now());
                return wanted.slots.len() > 1;
            }
        };
        // After a trial of every job the failing ones are set aside.
        // Where the time was over before, the next fetch asks for no more than were tried.
        if found.fine < usize::MAX || (is_slow && found.set_aside == 0) {
            self.limit.note_slow(wanted.jobs(), found.fine);
        }
        if found.set_aside > 0 {
            return true;
        }
        match &wanted.alone {
            Some(alone) if may_be_size => {
                self.aside.failed_alone(alone, error, shared.connections.timeout());
                return true;
            }
            Some(alone) => self.aside.postpone(alone),
            None => {}
        }
        self.queues.note_failure(&wanted.slots, took, Instant::now());
        wanted.slots.len() > 1
    }
}

/// Whether a fetch failed because its jobs did not come in time, or were more than the server's memory holds.
fn is_too_slow(error: &Error) -> bool {
    let is_out_of_memory = || match error {
        Error::Database(sqlx::Error::Database(database)) => database.code().as_deref() == Some("53200"),
        _ => false,
    };
    error.is_statement_timeout() || time_limit::is_missing(error) || is_out_of_memory()
}

/// Whether the server could not return the values that the statement read.
fn is_of_values(error: &Error) -> bool {
    let Error::Database(sqlx::Error::Database(database)) = error else { return false };
    database.code().is_some_and(|code| store::is_of_values(&code))
}

/// Whether the server refused the statement, perhaps for a single row, and would again.
fn is_of_statement(error: &Error) -> bool {
    let is_said = matches!(error, Error::Database(sqlx::Error::Database(said)) if said.code().is_some());
    // A trigger may wait for a lock that is held for long.
    is_said && !error.is_of_server() && (!error.is_retryable() || error.is_lock_timeout()) && !error.is_mix_up()
}
