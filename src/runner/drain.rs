//! Draining queues: the runner's own parts, but one job after another in the caller's task, as long as there is one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::builder::Runner;
use super::executor;
use super::groups::MOST_ALONE;
use super::recording::record_alone;
use super::result::Ended;
use super::shared::Shared;
use crate::client::Events;
use crate::error::{Error, Result};
use crate::event::Happened;
use crate::job::JobRow;
use crate::store::{self, Demand, GroupVisit, QueueDemand, SuspectLimit};

/// How long a drain's lease is: it is never extended, and a worker may sit in a debugger.
const LEASE: Duration = Duration::from_secs(3_600);

/// One attempt of a drain.
pub(crate) struct Attempted {
    /// The job as it was fetched.
    pub(crate) job: JobRow,
    pub(crate) happened: Happened,
    /// The job as it is after. `None`: it was deleted.
    pub(crate) after: Option<JobRow>,
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

    /// Works the job that comes first. `None`: none is available.
    pub(crate) async fn work_one(&mut self) -> Result<Option<Attempted>> {
        let Some(job) = self.fetch().await? else { return Ok(None) };
        let shared = &self.shared;
        let lease = shared.leases.current();
        let fetched = executor::prepare(shared, &lease, job.clone(), Instant::now());
        shared.runs.take(lease.id, std::iter::once((job.id, job.run, Arc::clone(&fetched.attempt.stop), None)));
        executor::attempt(Arc::clone(shared), fetched).await;
        // The executor sends exactly one result, and keeps the sender open.
        let Some(ended) = self.results.recv().await else { return Ok(None) };
        let mut events = shared.client.events();
        record_alone(Arc::clone(shared), ended).await;
        let happened = ending(&mut events, &job).await;
        let mut connection = shared.client.connection().await?;
        let after = store::job_by_id(&mut connection, shared.client.statements(), job.id).await?;
        Ok(Some(Attempted { job, happened, after }))
    }

    /// Deletes the runner's row.
    pub(crate) async fn end(self) -> Result<()> {
        let Self { shared, .. } = self;
        let mut connection = shared.client.connection().await?;
        shared.leases.current().give_up(&mut connection, shared.client.statements()).await
    }

    /// Takes one job: the first over all queues, but for those from which nothing may be fetched.
    async fn fetch(&self) -> Result<Option<JobRow>> {
        let shared = &self.shared;
        let mut connection = shared.client.connection().await?;
        let statements = shared.client.statements();
        let mut queues: Vec<_> = shared.queues.iter().map(|queue| &queue.name).collect();
        let mut refused = None;
        loop {
            let names: Vec<_> = queues.iter().map(|name| name.as_str()).collect();
            let Some((id, queue, crashes)) =
                store::next_job(&mut connection, statements, &names, shared.workers.kinds.as_deref()).await?
            else {
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
            let kinds = shared.workers.kinds.as_deref();
            let suspects = if crashes > 1 { SuspectLimit::OneAlone } else { SuspectLimit::AtMost(crashes.into()) };
            let demand = Demand { slots: &slots, suspects, kinds, cursor: &[], except: &[] };
            let mut fetched = store::fetch(&mut connection, statements, lease.id, demand).await?;
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
