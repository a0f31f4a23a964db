//! Recording results: sends a batch until the database took it.
//!
//! ```text
//! batch ──sent──▶ recorded
//!  │ │ ▲
//!  │ │ └─ waits: the database is away ◀──┐
//!  │ └──▶ some jobs are locked, or a queue that a result holds: these results are set aside, one by one
//!  └────▶ rejected, or blocked by another lock: bisected, and each result that is rejected alone is set aside
//! set aside ──sent──▶ recorded, or waits, until the lease is lost or a stop runs out of time
//! ```
//!
//! Invariants: no result waits in a batch because of another's row. Results that are set aside take one connection at a
//! time. The runner fetches no more while too many results wait.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::lost_answers;
use super::rejected::{is_hopeless, is_refusal, replace};
use super::result::{self, Ended, RunTimes};
use crate::client::connections::growing_wait::GrowingWait;
use crate::error::Result;
use crate::runner::life::lease::RunnerLease;
use crate::runner::shared::Shared;
use crate::store::{FinishedStates, Hold, Verdict};
use crate::words::ident::JobId;
use crate::words::state::JobState;
use crate::words::tally::{Counted, Measured};

/// How long a batch waits for a locked row: an open transaction, or for a moment another runner's fetch that came by when
/// the job was not running yet. Short, since it keeps a connection.
const LOCK_TIMEOUT: Duration = Duration::from_millis(50);

/// The same of results that are set aside, which are sent again anyway, and of the parts of a bisection. The shortest
/// that there is: zero would be no limit.
const SHORTEST_LOCK_TIMEOUT: Duration = Duration::from_millis(1);

/// A bisection ends after this many single results in a row were rejected, and the rest of the batch is sent again later,
/// as a whole. Where the database rejects everything, bisecting every batch to its end would be thousands of statements.
const MAX_REJECTED_IN_A_ROW: u32 = 16;

/// A batch that the server refused so often is bisected. A passing trouble, such as a deadlock, has passed by then.
const MAX_REFUSALS: u32 = 3;

/// Sends one lease's batch until the database took it. After a lost lease none of it would count.
pub(in crate::runner) async fn record(shared: &Arc<Shared>, mut batch: Vec<Ended>) {
    let Some(lease) = batch.first().map(|ended| Arc::clone(&ended.lease)) else {
        return;
    };
    keep_latest(shared, &mut batch);
    let mut retry = Retry::new();
    let mut refusals = 0;
    loop {
        let error = match until_lost(&lease, send(shared, lease.id, &batch, LOCK_TIMEOUT)).await {
            None => return lost(shared, batch).await,
            Some(Ok(finished)) => return recorded(shared, &lease, batch, &finished).await,
            Some(Err(error)) => error,
        };
        lost_answers::note_failed_send(&mut batch, &error);
        let sent = batch.len();
        if error.is_lock_timeout() {
            let Some(locked) = until_lost(&lease, locked(shared, &batch)).await else {
                return lost(shared, batch).await;
            };
            batch = set_blocked_aside(shared, batch, &locked);
            if batch.is_empty() {
                return;
            }
            if batch.len() < sent {
                continue;
            }
        }
        // The jobs are not locked: a lock on something else, such as a row that a trigger changes, counts as a refusal.
        let is_refused = is_refusal(&error) || error.is_lock_timeout();
        refusals += u32::from(is_refused);
        if is_hopeless(&error) || (is_refused && refusals >= MAX_REFUSALS) {
            tracing::warn!(%error, results = batch.len(), "the database rejects a batch of results: it is bisected");
            batch = bisect(shared, &lease, batch).await;
            if batch.is_empty() {
                return;
            }
            if batch.len() < sent {
                // Results that the database takes may come only after thousands that it rejects.
                retry.reset();
            }
        } else {
            tracing::warn!(%error, "results not recorded yet, trying again");
        }
        if !retry.wait(shared, &lease).await {
            return lost(shared, batch).await;
        }
    }
}

/// Sorts results by job, since rows are locked in one order everywhere and the statement finds its places by it. Of a job
/// that was set back meanwhile only the latest run can count.
fn keep_latest(shared: &Shared, batch: &mut Vec<Ended>) {
    batch.sort_by_key(|ended| (ended.result.id, std::cmp::Reverse(ended.result.run)));
    let mut over = Vec::new();
    batch.dedup_by(|older, newer| {
        let is_over = older.result.id == newer.result.id;
        if is_over {
            over.push((older.result.id, older.result.attempt));
            result::tell_stale(&shared.client, older);
        }
        is_over
    });
    result::warn_of_stale(&over);
}

/// Sends a batch that the database rejects part by part: halves, and halves of those that it rejects, down to single results.
/// A result that is rejected alone is set aside. A lock that blocks a result counts as a rejection. Answers with the results
/// that are still to be sent, in their order.
async fn bisect(shared: &Arc<Shared>, lease: &Arc<RunnerLease>, batch: Vec<Ended>) -> Vec<Ended> {
    // The next part is the last.
    let mut parts = vec![batch];
    let mut rejected_in_a_row = 0;
    loop {
        let is_stopping = shared.signals.drained.is_cancelled();
        // At a stop nothing is sent again later.
        if rejected_in_a_row >= MAX_REJECTED_IN_A_ROW && !is_stopping {
            break;
        }
        let Some(mut part) = parts.pop() else { break };
        let Some(sent) = until_lost(lease, send(shared, lease.id, &part, SHORTEST_LOCK_TIMEOUT)).await else {
            parts.push(part);
            lost(shared, parts.into_iter().rev().flatten().collect()).await;
            return Vec::new();
        };
        let error = match sent {
            Ok(finished) => {
                rejected_in_a_row = 0;
                recorded(shared, lease, part, &finished).await;
                continue;
            }
            Err(error) => error,
        };
        let is_of_rows = is_refusal(&error) || error.is_lock_timeout();
        // At a stop there is no time for statements that take as long as a statement may take.
        if !is_of_rows || (error.is_statement_timeout() && is_stopping) {
            tracing::warn!(%error, "results not recorded yet, trying again");
            lost_answers::note_failed_send(&mut part, &error);
            parts.push(part);
            break;
        }
        if let [ended] = part.as_mut_slice()
            && is_hopeless(&error)
            && replace(shared, ended, &error)
        {
            parts.push(part);
            continue;
        }
        if part.len() > 1 {
            let second = part.split_off(part.len().div_ceil(2));
            parts.extend([second, part]);
            continue;
        }
        let Some(ended) = part.pop() else { continue };
        rejected_in_a_row += 1;
        let id = ended.result.id;
        if error.is_lock_timeout() {
            tracing::warn!(job.id = %id, %error, "a lock blocks a result: it is set aside");
        } else if error.is_statement_timeout() {
            tracing::warn!(job.id = %id, %error, "a result takes the database too long, or a lock blocks it: it is set aside");
        } else {
            tracing::error!(job.id = %id, %error, "the database rejects a result: it is set aside");
        }
        set_aside(shared, ended);
    }
    parts.into_iter().rev().flatten().collect()
}

/// Records the result where it holds up no other.
fn set_aside(shared: &Arc<Shared>, ended: Ended) {
    shared.tasks.set_aside.spawn(record_alone(Arc::clone(shared), ended));
}

/// Sends a single result until the database took it.
pub(in crate::runner) async fn record_alone(shared: Arc<Shared>, ended: Ended) {
    let lease = Arc::clone(&ended.lease);
    let mut batch = vec![ended];
    let mut retry = Retry::new();
    let mut refusals = 0;
    loop {
        let sending = async {
            // One at a time: together they would take every connection.
            let _permit = shared.tasks.set_aside_permit.lock().await;
            send(&shared, lease.id, &batch, SHORTEST_LOCK_TIMEOUT).await
        };
        let error = match until_lost(&lease, sending).await {
            None => return lost(&shared, batch).await,
            Some(Ok(finished)) => return recorded(&shared, &lease, batch, &finished).await,
            Some(Err(error)) => error,
        };
        lost_answers::note_failed_send(&mut batch, &error);
        refusals += u32::from(is_refusal(&error));
        if error.is_lock_timeout() {
            tracing::debug!("a lock still blocks a result");
        } else if is_hopeless(&error) && batch.iter_mut().all(|ended| replace(&shared, ended, &error)) {
            // The replacement is sent next.
        } else if refusals > 1 {
            // The first refusal was logged when the result was set aside.
            tracing::debug!(%error, "the database still rejects a result");
        } else {
            tracing::warn!(%error, "results not recorded yet, trying again");
        }
        if !retry.wait(&shared, &lease).await {
            return lost(&shared, batch).await;
        }
    }
}

/// Takes the results that a lock may block out of a batch, to be recorded when the locks are gone: those of locked rows,
/// and those that hold back a queue or a group, whose row may be locked. Answers with the others.
fn set_blocked_aside(shared: &Arc<Shared>, batch: Vec<Ended>, locked: &HashSet<JobId>) -> Vec<Ended> {
    let is_blocked = |ended: &Ended| locked.contains(&ended.result.id) || ended.result.verdict.hold().is_some();
    let (blocked, free): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_blocked);
    for ended in blocked {
        tracing::debug!(job.id = %ended.result.id, "a lock blocks a result: it is set aside");
        set_aside(shared, ended);
    }
    free
}

/// The jobs of a batch that are locked.
async fn locked(shared: &Shared, batch: &[Ended]) -> HashSet<JobId> {
    let ids: Vec<_> = batch.iter().map(|ended| ended.result.id).collect();
    let asking = shared.ask(async |store| store.locked(&ids).await);
    asking.await.unwrap_or_else(|error| {
        tracing::warn!(%error, results = ids.len(), "could not ask which jobs are locked: each result is set aside");
        ids.into_iter().collect()
    })
}

/// Sends results. Answers with what became of them.
async fn send(shared: &Shared, worker: Uuid, batch: &[Ended], lock_timeout: Duration) -> Result<FinishedStates> {
    let began = Instant::now();
    let results: Vec<_> = batch.iter().map(|ended| &ended.result).collect();
    let finished = shared.ask(async |store| store.finish(worker, &results, Some(lock_timeout)).await).await;
    if finished.is_ok() {
        shared.telemetry.runner.finished(began, batch.len());
    }
    finished
}

/// Lets go of results that are recorded.
async fn recorded(shared: &Shared, lease: &RunnerLease, mut batch: Vec<Ended>, finished: &FinishedStates) {
    // Most are completed.
    lost_answers::find_completed(shared, &mut batch, finished, true).await;
    give_back_held(shared, &batch);
    shared.let_go(&batch);
    let (mut completed, mut failed) = (0, 0);
    for ended in &batch {
        let state = finished.get(&ended.result.id);
        let (is_completed, is_failed) = match (state, &ended.result.verdict) {
            (Some(JobState::Completed), _) => (true, false),
            // Completed before this result: in a transaction of the worker's own, or by a send whose answer was lost.
            (None, _) if ended.may_be_completed => (true, false),
            (None, _) => continue,
            (Some(_), Verdict::Retry { .. } | Verdict::Discard { .. }) => (false, true),
            (Some(_), _) => (false, false),
        };
        completed += i64::from(is_completed);
        failed += i64::from(is_failed);
        ended.telemetry.count(&shared.client, |tally| {
            tally.count(Counted::Completed, is_completed.into());
            tally.count(Counted::Failed, is_failed.into());
            tally.count(Counted::Discarded, (state == Some(&JobState::Discarded)).into());
            if let Some(RunTimes { waited, took }) = ended.times {
                tally.measure(Measured::Wait, waited);
                tally.measure(Measured::Run, took);
            }
        });
    }
    shared.client.note_counts();
    lease.count(completed, failed);
    result::tell(&shared.client, batch, finished);
}

/// Gives back what was fetched ahead from queues that are held since. Jobs of groups are not fetched ahead.
fn give_back_held(shared: &Shared, batch: &[Ended]) {
    for ended in batch {
        if let Some(Hold { queue, group: None }) = ended.result.verdict.hold()
            && let Some(queue) = shared.queue(queue)
        {
            shared.give_back(queue.clear());
        }
    }
}

/// Lets go of results that cannot count any more.
async fn lost(shared: &Shared, mut batch: Vec<Ended>) {
    let finished = FinishedStates::new();
    lost_answers::find_completed(shared, &mut batch, &finished, false).await;
    shared.let_go(&batch);
    result::tell(&shared.client, batch, &finished);
}

/// Waits for a future while the lease lives. A database that does not even answer must not hold up a stop for longer than
/// that.
async fn until_lost<T>(lease: &RunnerLease, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        answer = future => Some(answer),
        () = lease.lost.cancelled() => None,
    }
}

/// The waits between two sends of the same results.
struct Retry {
    wait: GrowingWait,
    /// A result that waits is sent once more when the runner is drained, however long its wait still is.
    is_last_call_due: bool,
}

impl Retry {
    const fn new() -> Self {
        Self { wait: GrowingWait::new(), is_last_call_due: true }
    }

    fn reset(&mut self) {
        self.wait.reset();
    }

    /// Waits before the next send. `false`: the lease was lost meanwhile.
    async fn wait(&mut self, shared: &Shared, lease: &RunnerLease) -> bool {
        tokio::select! {
            () = lease.lost.cancelled() => return false,
            () = shared.signals.drained.cancelled(), if self.is_last_call_due => self.is_last_call_due = false,
            () = tokio::time::sleep(self.wait.grow()) => {}
        }
        true
    }
}
