//! Recovery from fetches that failed: later fetches leave out the job or the queue that may be the reason.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use super::failing_queues::FailingQueues;
use super::fetch::{FetchResult, Wanted, free_slots};
use super::job_limit::JobLimit;
use crate::client::connections::time_limit;
use crate::error::{Error, Result};
use crate::runner::shared::Shared;
use crate::store::{self, FailedFetch};

/// The producer's memory of fetches that failed, and of the suspects that the last one met.
pub(in crate::runner) struct Failures {
    limit: JobLimit,
    queues: FailingQueues,
    is_careful: bool,
    may_fetch_ahead: bool,
    /// The suspects and the jobs that are set aside, in the words of the schema (`V44__fetch_plan.sql`).
    memory: Value,
    /// The lease of the fetches that it remembers.
    lease: Uuid,
}

/// The result of a search for the jobs at fault.
#[derive(Default)]
struct Search {
    set_aside: usize,
    /// How many of the tried jobs can be started.
    fine: usize,
    /// Whether every job was tried.
    is_complete: bool,
}

impl Failures {
    pub(in crate::runner) fn new() -> Self {
        Self {
            limit: JobLimit::none(),
            queues: FailingQueues::default(),
            is_careful: false,
            may_fetch_ahead: true,
            memory: json!({}),
            lease: Uuid::nil(),
        }
    }

    /// What the next fetch under this lease needs to know of the ones before it, to be changed by its answer.
    pub(in crate::runner) fn memory(&mut self, lease: Uuid) -> &mut Value {
        if self.lease != lease {
            self.lease = lease;
            // The jobs of a lost lease are suspects, so the new one begins with one of them.
            if let Some(memory) = self.memory.as_object_mut() {
                memory.remove("taken");
            }
        }
        &mut self.memory
    }

    /// The jobs to fetch next.
    pub(in crate::runner) fn wanted(&self, shared: &Shared) -> Wanted {
        if self.is_careful {
            // What the next fetch may take depends on the runs that have ended.
            shared.runs.wake_at_end();
        }
        let mut slots = free_slots(shared, self.may_fetch_ahead);
        let is_apart = self.queues.choose(&mut slots, Instant::now());
        self.limit.apply(&mut slots);
        Wanted { slots, is_careful: self.is_careful, limit: is_apart.then(|| shared.connections.timeout() / 2) }
    }

    /// How long until something is to be done that no slot waits for.
    pub(in crate::runner) fn due_in(&self) -> Duration {
        self.queues.due_in(Instant::now())
    }

    /// Notes a fetch that worked.
    pub(in crate::runner) fn note_success(&mut self, wanted: &Wanted, found: &FetchResult) {
        self.limit.note(found.jobs, found.bytes);
        self.queues.note_success(&wanted.slots);
        self.is_careful = found.plan.as_ref().is_some_and(|plan| plan.is_careful);
        self.may_fetch_ahead = found.plan.as_ref().is_none_or(|plan| plan.may_fetch_ahead);
    }

    /// Looks for what made a fetch fail after so long. Answers whether the next one may work.
    pub(in crate::runner) async fn mend(
        &mut self,
        shared: &Shared,
        worker: Uuid,
        wanted: &Wanted,
        error: &Error,
        took: Duration,
    ) -> bool {
        let is_slow = is_too_slow(error);
        if !is_slow && !is_of_statement(error) {
            return false;
        }
        self.is_careful = true;
        let failed = FailedFetch {
            worker,
            slots: &wanted.slots,
            kinds: shared.workers.kinds.as_deref(),
            // A row that is larger than an answer can be is refused, or does not come in time.
            may_be_size: is_slow || is_of_values(error),
            error: error.to_string(),
        };
        match search(shared, &failed, &mut self.memory).await {
            Ok(search) => {
                // Where the time was over before, the next fetch asks for no more than were tried.
                if !search.is_complete || (is_slow && search.set_aside == 0) {
                    let fine = if search.is_complete { usize::MAX } else { search.fine };
                    self.limit.note_slow(wanted.jobs(), fine);
                }
                if search.set_aside > 0 {
                    return true;
                }
            }
            // The database may be at fault, and no job.
            Err(error) => {
                tracing::warn!(%error, "could not look for the job because of which a fetch failed");
                if error.is_of_server() {
                    return false;
                }
            }
        }
        // A queue that cannot be read may be at fault, such as one with a damaged index page.
        self.queues.note_failure(&wanted.slots, took, Instant::now());
        wanted.slots.len() > 1
    }
}

/// Lets the database try the jobs of a fetch that failed, within half of a fetch's time. So the jobs at fault are set aside
/// within a lease, and the jobs that were fetched with them go on.
async fn search(shared: &Shared, failed: &FailedFetch<'_>, memory: &mut Value) -> Result<Search> {
    let limit = shared.connections.timeout();
    let began = Instant::now();
    let mut search = Search::default();
    let mut left: Option<Vec<Uuid>> = None;
    while began.elapsed() < limit / 2 {
        let only = left.as_deref();
        let trying = shared.ask(async |store| store.set_aside(failed, only, limit / 10, memory).await);
        let tried = match trying.await {
            Ok(tried) => tried,
            Err(error) if left.is_none() => return Err(error),
            Err(_) => break,
        };
        for job in tried.iter().filter(|job| job.is_tried) {
            match &job.problem {
                None => search.fine += 1,
                Some(reason) => tracing::error!(job.id = %job.id, reason, "a job that stops a fetch is set aside"),
            }
        }
        search.set_aside += tried.iter().filter(|job| job.problem.is_some()).count();
        let untried: Vec<_> = tried.iter().filter(|job| !job.is_tried).map(|job| job.id).collect();
        search.is_complete = untried.is_empty();
        if search.is_complete {
            break;
        }
        left = Some(untried);
    }
    Ok(search)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_lease_begins_with_one_suspect_and_keeps_what_is_set_aside() {
        let mut failures = Failures::new();
        let (first, second) = (Uuid::now_v7(), Uuid::now_v7());
        *failures.memory(first) = json!({ "taken": 5, "aside": { "a": {} } });
        assert_eq!(*failures.memory(first), json!({ "taken": 5, "aside": { "a": {} } }));
        assert_eq!(*failures.memory(second), json!({ "aside": { "a": {} } }));
    }
}
