//! One fetch: from the number of jobs that the queues want to the jobs in their slots.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use uuid::Uuid;

use super::cursor::Cursor;
use crate::client::connections::time_limit;
use crate::error::{Error, Result};
use crate::runner::life::lease::RunnerLease;
use crate::runner::recording::result::Ended;
use crate::runner::runs::Run;
use crate::runner::shared::Shared;
use crate::runner::working::executor;
use crate::store::{
    Demand, FetchPlan, Fetched, GroupVisit, Position, QueueDemand, RunResult, StoredError, SuspectLimit, Unreadable,
    Verdict,
};
use crate::worker::Stop;
use crate::worker::panics::wait_after;

/// From this number of jobs on, a fetch sends two statements at once.
const ENOUGH_FOR_TWO: usize = 1_000;

/// The result of a fetch.
pub(in crate::runner) struct FetchResult {
    pub(in crate::runner) jobs: usize,
    /// The bytes of their values.
    pub(in crate::runner) bytes: usize,
    /// Whether it brought all that was wanted, so that there are probably more jobs.
    pub(in crate::runner) is_full: bool,
    /// Whether there may be jobs that it was not allowed to take.
    pub(in crate::runner) is_held_back: bool,
    /// How long until the first of these may be taken, where a rate or a hold says when.
    pub(in crate::runner) next_in: Option<Duration>,
    /// What the runner has to mind. `None`: nothing.
    pub(in crate::runner) plan: Option<FetchPlan>,
}

/// The jobs to fetch.
pub(in crate::runner) struct Wanted {
    /// Empty: nothing.
    pub(in crate::runner) slots: Vec<QueueDemand>,
    /// Whether one statement is sent in any case: what it may take depends on the one before it.
    pub(in crate::runner) is_careful: bool,
    /// How long the answer is awaited, where it is not as long as any.
    pub(in crate::runner) limit: Option<Duration>,
}

impl Wanted {
    pub(in crate::runner) const NOTHING: Self = Self { slots: Vec::new(), is_careful: false, limit: None };

    /// The most jobs that a fetch of them brings.
    pub(in crate::runner) fn jobs(&self) -> usize {
        self.slots.iter().fold(0, |sum, slots| sum.saturating_add(slots.free))
    }
}

/// How many jobs the queues want now. Empty: none, or too many results wait to be recorded.
pub(in crate::runner) fn free_slots(shared: &Shared, ahead: bool) -> Vec<QueueDemand> {
    if shared.is_full_of_results() {
        return Vec::new();
    }
    if let Some(share) = &shared.share {
        share.begin_fetch();
    }
    let now = Instant::now();
    let slots = shared.queues.iter().map(|queue| {
        let (free, idle) = queue.want(ahead);
        let groups = shared.groups.visit(&queue.name, idle, now);
        QueueDemand { queue: queue.name.clone(), free, idle, groups }
    });
    slots.filter(|slots| slots.free > 0).collect()
}

/// Fetches once, and starts the jobs as far as slots are free.
pub(in crate::runner) async fn fetch(
    shared: &Arc<Shared>,
    lease: &Arc<RunnerLease>,
    wanted: &Wanted,
    memory: &mut Value,
    cursor: &mut Cursor,
) -> Result<FetchResult> {
    let slots = &wanted.slots;
    let taken_away_before = shared.runs.taken_away();
    let began = Instant::now();
    let (depth, positions) = cursor.begin(began);
    let taking = take(shared, lease.id, wanted, memory, &positions);
    let (fetched, error) = match wanted.limit {
        Some(limit) => time_limit::within(limit, taking).await?,
        None => taking.await?,
    };
    // Also where the other of two statements failed.
    if let Some(plan) = &fetched.plan {
        memory.clone_from(&plan.memory);
    }
    let visit_due = shared.groups.visited(slots, &fetched, began, Instant::now());
    let is_partial = fetched.plan.as_ref().is_some_and(|plan| plan.is_partial);
    note_guards(shared, slots, &fetched, is_partial);
    if !is_partial {
        cursor.remember(depth, slots, &fetched, Instant::now());
        // These may be before the cursor, and so may jobs that the failed statement had locked.
        if !fetched.left_out.is_empty() || error.is_some() {
            *cursor = Cursor::new(Instant::now());
        }
    }
    let found = FetchResult {
        jobs: fetched.count(),
        bytes: fetched.bytes,
        is_full: fetched.count() == wanted.jobs(),
        is_held_back: fetched.plan.is_some()
            || !fetched.left_out.is_empty()
            || fetched.queues.iter().any(|queue| queue.is_held_back || queue.has_groups),
        next_in: fetched.next_in.into_iter().chain(visit_due.map(|due| due - Instant::now())).min(),
        plan: fetched.plan.clone(),
    };
    for (id, reason) in fetched.plan.iter().flat_map(|plan| &plan.discarded) {
        tracing::error!(job.id = %id, reason, "a job that no fetch can start is discarded");
    }
    shared.telemetry.runner.fetched(began, found.jobs);
    hand_over(shared, lease, fetched);
    if found.jobs > 0 && shared.runs.taken_away() != taken_away_before {
        shared.runs.note_taken_away();
    }
    error.map_or(Ok(found), Err)
}

/// Sends the statement of a fetch. For many jobs it sends two at once, each for half of them: a single backend takes jobs
/// more slowly than a runner works them. Answers with the jobs, and with the error if one of the two failed.
async fn take(
    shared: &Shared,
    worker: Uuid,
    wanted: &Wanted,
    memory: &Value,
    cursor: &[Position],
) -> Result<(Fetched, Option<Error>)> {
    let planned = SuspectLimit::Planned(memory);
    let slots = &wanted.slots;
    // Groups take turns over all jobs of a fetch that visits them.
    let visits_groups = slots.iter().any(|slots| slots.groups.has_groups && slots.groups.is_any());
    if wanted.jobs() < ENOUGH_FOR_TWO || wanted.is_careful || visits_groups {
        return Ok((send(shared, worker, slots, planned, cursor).await?, None));
    }
    let (half, rest): (Vec<_>, Vec<_>) = slots.iter().map(halve).unzip();
    let half = send(shared, worker, &half, planned, cursor);
    match tokio::join!(half, send(shared, worker, &rest, SuspectLimit::AtMost(0), cursor)) {
        (Ok(one), Ok(other)) => Ok((one.and(other), None)),
        (Ok(fetched), Err(error)) | (Err(error), Ok(fetched)) => Ok((fetched, Some(error))),
        (Err(error), Err(_)) => Err(error),
    }
}

/// The two halves of what a queue wants. One of them visits groups.
fn halve(QueueDemand { queue, free, idle, groups }: &QueueDemand) -> (QueueDemand, QueueDemand) {
    let part = |free, idle, groups| QueueDemand { queue: queue.clone(), free, idle, groups };
    (part(free - free / 2, idle - idle / 2, groups.clone()), part(free / 2, idle / 2, GroupVisit::none()))
}

/// Sends one statement.
async fn send(
    shared: &Shared,
    worker: Uuid,
    slots: &[QueueDemand],
    suspects: SuspectLimit<'_>,
    cursor: &[Position],
) -> Result<Fetched> {
    let demand = Demand { slots, suspects, kinds: shared.workers.kinds.as_deref(), cursor };
    shared.ask(async |store| store.fetch(worker, demand).await).await
}

/// Notes the queues in which this runner fetches nothing ahead: those with a limit or a rate; and, unless the fetch
/// `is_partial`, those with jobs that have one attempt, and with jobs of groups that could start.
fn note_guards(shared: &Shared, slots: &[QueueDemand], fetched: &Fetched, is_partial: bool) {
    for QueueDemand { queue: name, groups, .. } in slots {
        let Some(queue) = shared.queue(name) else { continue };
        queue.limit(fetched.any_facts(name, |facts| facts.is_limited));
        if is_partial {
            continue;
        }
        let visited = fetched.visit_of(name);
        // Groups need idle slots, and this fetch had none.
        let waits = || groups.is_any() && visited.is_none() && fetched.any_facts(name, |facts| facts.has_groups);
        let has_one_attempt = || fetched.jobs.iter().any(|job| job.max_attempts == 1 && job.queue == *name);
        queue.be_careful(
            fetched.left_out.contains(name)
                || visited.is_some_and(|visited| visited.has_startable)
                || waits()
                || has_one_attempt(),
        );
    }
}

/// Takes fetched jobs in hand and starts them, or leaves them waiting for a slot. Nothing here waits or fails, so no job
/// is lost between its fetch and its slot.
fn hand_over(shared: &Arc<Shared>, lease: &Arc<RunnerLease>, fetched: Fetched) {
    let now = Instant::now();
    let jobs: Vec<_> = fetched.jobs.into_iter().map(|row| executor::prepare(shared, lease, row, now)).collect();
    let unreadable: Vec<_> = fetched.unreadable.into_iter().map(|job| (job, Arc::<Stop>::default())).collect();
    let readable = jobs.iter().map(|job| {
        let row = &job.attempt.row;
        let group = row.group_key.clone().map(|key| (row.queue.clone(), key));
        (row.id, Run { worker: lease.id, number: row.run, stop: Arc::clone(&job.attempt.stop), group })
    });
    let failed = unreadable
        .iter()
        .map(|(job, stop)| (job.id, Run { worker: lease.id, number: job.run, stop: Arc::clone(stop), group: None }));
    shared.runs.take(readable.chain(failed));
    for (Unreadable { id, kind, queue, attempt, run, problem }, stop) in unreadable {
        tracing::error!(job.id = %id, problem, "a job cannot be worked");
        let error = StoredError::coded("unreadable", problem);
        let verdict = Verdict::Retry { delay: wait_after(shared.options.retry_policy, attempt), error };
        let result = RunResult { id, attempt, run, verdict, progress: None, is_deleted: false };
        let telemetry = shared.telemetry.of(&kind, &queue);
        shared.send(Ended { lease: Arc::clone(lease), stop, telemetry, result, may_be_completed: false, times: None });
    }
    for job in jobs {
        // The job was fetched by queue, so the queue is one of the runner's.
        if let Some(queue) = shared.queue(&job.attempt.row.queue) {
            queue.put(job);
        }
    }
    executor::fill_slots(shared);
    shared.signals.fetched_ahead.notify_one();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ident::QueueName;

    #[test]
    fn two_halves_want_what_the_whole_wants() {
        let whole =
            QueueDemand { queue: QueueName::from_stored("mail"), free: 1_001, idle: 7, groups: GroupVisit::none() };
        let (half, rest) = halve(&whole);
        assert_eq!((half.free, rest.free), (501, 500));
        assert_eq!((half.idle, rest.idle), (4, 3));
    }
}
