//! Draining queues: the runner's own parts, but one job after another in the caller's task, as long as there is one.

use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::fetching::groups::MOST_ALONE;
use super::recording::result::Ended;
use super::recording::sending::record_alone;
use super::runs::Run;
use super::setup::builder::Runner;
use super::shared::Shared;
use super::working::executor;
use crate::client::Events;
use crate::error::{Error, Result};
use crate::store::{Demand, GroupVisit, QueueDemand, SuspectLimit};
use crate::words::event::Happened;
use crate::words::job::JobRow;

/// How long a drain's lease is: it is never extended, and a worker may sit in a debugger.
const LEASE: Duration = Duration::from_secs(3_600);

/// One attempt of a drain.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkedJob {
    /// The job after the attempt. If it has been deleted since: as it was fetched.
    pub job: JobRow,
    /// The attempt, counted from 1. (A snooze does not use it up: then the job's own count is lower.)
    pub attempt: u16,
    /// How it ended.
    pub happened: Happened,
}

impl WorkedJob {
    /// The error of the attempt, or the worker's reason for a retry, a cancel or a discard.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match &self.happened {
            Happened::Retried { error, .. } => error.as_deref(),
            Happened::Cancelled { reason, .. } => reason.as_deref(),
            Happened::Discarded { reason, .. } => Some(reason),
            _ => None,
        }
    }
}

/// A runner that works only when asked to.
pub(crate) struct Drainer {
    shared: Arc<Shared>,
    results: mpsc::UnboundedReceiver<Ended>,
}

impl Drainer {
    pub(crate) async fn new(runner: Runner) -> Result<Self> {
        // It hears no notification.
        let (shared, results, _) = runner.lease(LEASE).poll_only().enter().await?;
        Ok(Self { shared, results })
    }

    /// Works the job that comes first, and with a batch worker the next jobs of its kind as well. Empty: none is available.
    pub(crate) async fn work_next(&mut self) -> Result<Vec<WorkedJob>> {
        let kinds = self.shared.workers.kinds.clone();
        let Some(first) = self.fetch(kinds.as_deref()).await? else { return Ok(Vec::new()) };
        let of_kind = [first.kind.to_string()];
        let worker = self.shared.workers.registry.worker(&of_kind[0]).cloned();
        let most = worker.as_ref().map_or(1, |worker| worker.most());
        let mut jobs = vec![first];
        while jobs.len() < most
            && let Some(job) = self.fetch(Some(&of_kind)).await?
        {
            jobs.push(job);
        }
        let shared = &self.shared;
        let lease = shared.leases.current();
        let attempts = jobs.iter().map(|job| {
            let fetched = executor::prepare(shared, &lease, job.clone(), Instant::now());
            let stop = Arc::clone(&fetched.attempt.stop);
            let run = Run { worker: lease.id, number: job.run, stop, group: None };
            shared.runs.take(std::iter::once((job.id, run)));
            executor::attempt(Arc::clone(shared), fetched)
        });
        run_together(attempts, || worker.iter().for_each(|worker| worker.close_batch())).await;
        let mut attempted = Vec::new();
        // The executor sends exactly one result for each attempt, and keeps the sender open.
        for _ in 0..jobs.len() {
            let Some(ended) = self.results.recv().await else { break };
            let Some(place) = jobs.iter().position(|job| job.id == ended.result.id) else { continue };
            let job = jobs[place].clone();
            let mut events = shared.client.events();
            record_alone(Arc::clone(shared), ended).await;
            let happened = ending(&mut events, &job).await;
            let mut connection = shared.client.connection().await?;
            let after = shared.client.store(&mut connection).job_by_id(job.id).await?;
            attempted.push((place, WorkedJob { attempt: job.attempt, job: after.unwrap_or(job), happened }));
        }
        attempted.sort_by_key(|(place, _)| *place);
        Ok(attempted.into_iter().map(|(_, attempted)| attempted).collect())
    }

    /// Releases or cancels the children of parents that have ended. Returns whether there were any.
    pub(crate) async fn release_children(&self) -> Result<bool> {
        let mut connection = self.shared.client.connection().await?;
        self.shared.client.store(&mut connection).release_children().await
    }

    /// Deletes the runner's row.
    pub(crate) async fn end(self) -> Result<()> {
        let Self { shared, .. } = self;
        let mut connection = shared.client.connection().await?;
        shared.leases.current().give_up(shared.client.store(&mut connection)).await
    }

    /// Takes one job of these kinds: the first over all queues, but for those from which nothing may be fetched.
    async fn fetch(&self, kinds: Option<&[String]>) -> Result<Option<JobRow>> {
        let shared = &self.shared;
        let mut connection = shared.client.connection().await?;
        let mut queues: Vec<_> = shared.queues.iter().map(|queue| &queue.name).collect();
        let mut refused = None;
        loop {
            let names: Vec<_> = queues.iter().map(|name| name.as_str()).collect();
            let Some((id, queue, crashes)) = shared.client.store(&mut connection).next_job(&names, kinds).await? else {
                return Ok(None);
            };
            if refused == Some(id) {
                // Its queue is paused, or the job is locked.
                queues.retain(|name| name.as_str() != queue);
                continue;
            }
            let slots: Vec<_> = (queues.iter().filter(|name| name.as_str() == queue))
                .map(|name| QueueDemand {
                    queue: (*name).clone(),
                    free: 1,
                    idle: 1,
                    groups: GroupVisit::from_start(MOST_ALONE),
                })
                .collect();
            let lease = shared.leases.current();
            let suspects = if crashes > 1 { SuspectLimit::OneAlone } else { SuspectLimit::AtMost(crashes.into()) };
            let demand = Demand { slots: &slots, suspects, kinds, cursor: &[] };
            let mut fetched = shared.client.store(&mut connection).fetch(lease.id, demand).await?;
            if let Some(unreadable) = fetched.unreadable.pop() {
                let problem = format!("job {}: {}", unreadable.id, unreadable.problem);
                return Err(Error::InvalidJson { what: "row", kind: queue, problem });
            }
            if let Some(job) = fetched.jobs.pop() {
                return Ok(Some(job));
            }
            refused = Some(id);
        }
    }
}

/// Runs attempts at once, in the caller's task. `are_begun`: called when each has begun.
async fn run_together(attempts: impl Iterator<Item = impl Future<Output = ()>>, are_begun: impl FnOnce()) {
    let mut running: Vec<_> = attempts.map(|attempt| Some(Box::pin(attempt))).collect();
    let mut are_begun = Some(are_begun);
    std::future::poll_fn(|context| {
        for attempt in &mut running {
            if let Some(future) = attempt
                && future.as_mut().poll(context).is_ready()
            {
                *attempt = None;
            }
        }
        if let Some(are_begun) = are_begun.take() {
            are_begun();
        }
        if running.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// How the attempt ended, according to the events since it was recorded.
async fn ending(events: &mut Events, job: &JobRow) -> Happened {
    loop {
        let event = tokio::select! {
            biased;
            event = events.recv() => event,
            () = std::future::ready(()) => None,
        };
        match event {
            Some(event) if event.id == job.id && event.attempt == job.attempt => return event.happened,
            Some(_) => {}
            // Its result was dropped.
            None => return Happened::Stale,
        }
    }
}
