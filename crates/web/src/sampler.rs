//! One task reads the state of the queue for all pages, streams and metrics of a process.
//!
//! It runs while a request has asked for a snapshot within the last minute, or a stream is open. So a dashboard that is not
//! looked at costs nothing, and fifty open tabs cost what one does.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uniqueue::{Client, Diagnosis, Result};

use crate::snapshot::{POINTS, Point, Snapshot};

/// The time between two samples.
const EVERY: Duration = Duration::from_secs(2);

/// The time between two diagnoses, which take about twenty statements.
const DIAGNOSE_EVERY: Duration = Duration::from_secs(30);

/// The longest that one sample or one check takes.
const TIMEOUT: Duration = Duration::from_secs(10);
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the task goes on after the last request.
const LINGER: Duration = Duration::from_secs(60);

/// How long a request waits for the first snapshot.
const PATIENCE: Duration = Duration::from_secs(5);

type Latest = Option<Arc<Snapshot>>;

/// Reads the state of the queue, while it is asked for.
pub(crate) struct Sampler {
    client: Client,
    stop: CancellationToken,
    latest: watch::Sender<Latest>,
    task: Mutex<Task>,
    /// Counts samples, and changes from the dashboard.
    round: AtomicU64,
    /// Ends the wait for the next sample.
    hurry: Notify,
}

struct Task {
    wanted_at: Instant,
    handle: Option<JoinHandle<()>>,
}

impl Sampler {
    pub(crate) fn new(client: Client, stop: CancellationToken) -> Self {
        let task = Mutex::new(Task { wanted_at: Instant::now(), handle: None });
        Self { client, stop, latest: watch::Sender::new(None), task, round: AtomicU64::new(0), hurry: Notify::new() }
    }

    /// The latest snapshot, not older than a few samples. `None`: the database does not answer.
    pub(crate) async fn latest(self: &Arc<Self>) -> Latest {
        self.want();
        let mut latest = self.latest.subscribe();
        let is_fresh = |snapshot: &Latest| snapshot.as_ref().is_some_and(|one| one.taken_at.elapsed() < EVERY * 3);
        let _ = timeout(PATIENCE, latest.wait_for(is_fresh)).await;
        latest.borrow().clone()
    }

    /// Takes a sample after a change, so that the next page shows it.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        self.want();
        let mut latest = self.latest.subscribe();
        self.hurry.notify_one();
        let asked_at = Instant::now();
        let is_newer = |snapshot: &Latest| snapshot.as_ref().is_some_and(|one| one.taken_at >= asked_at);
        let _ = timeout(EVERY * 2, latest.wait_for(is_newer)).await;
    }

    /// A receiver that changes with every sample.
    pub(crate) fn subscribe(self: &Arc<Self>) -> watch::Receiver<Latest> {
        self.want();
        self.latest.subscribe()
    }

    /// A number that grows with each sample and each change from the dashboard. What was read before is then old.
    pub(crate) fn round(&self) -> u64 {
        self.round.load(Ordering::Acquire)
    }

    /// Begins a new round.
    pub(crate) fn next_round(&self) {
        self.round.fetch_add(1, Ordering::AcqRel);
    }

    /// Starts the task if it does not run.
    fn want(self: &Arc<Self>) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        task.wanted_at = Instant::now();
        if task.handle.as_ref().is_none_or(JoinHandle::is_finished) {
            let (stop, sampler) = (self.stop.clone(), Arc::clone(self));
            task.handle = Some(tokio::spawn(async move {
                tokio::select! {
                    () = sampler.run() => {}
                    () = stop.cancelled() => {}
                }
            }));
        }
    }

    fn is_wanted(&self) -> bool {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        task.wanted_at.elapsed() < LINGER || self.latest.receiver_count() > 0
    }

    async fn run(&self) {
        let diagnosis = watch::Sender::new(None);
        tokio::select! {
            () = self.sample_all(&diagnosis) => {}
            () = self.diagnose_all(&diagnosis) => {}
        }
    }

    async fn sample_all(&self, diagnosis: &watch::Sender<Option<Arc<Diagnosis>>>) {
        let mut history = VecDeque::new();
        while self.is_wanted() {
            let found = diagnosis.borrow().clone();
            match timeout(TIMEOUT, self.sample(&mut history, found)).await {
                Ok(Ok(snapshot)) => {
                    // First: a tab that hears of the sample reads what is new.
                    self.next_round();
                    self.latest.send_replace(Some(Arc::new(snapshot)));
                }
                Ok(Err(error)) => self.fail(error.to_string()),
                Err(_) => self.fail("the database did not answer in time".to_owned()),
            }
            let _ = timeout(EVERY, self.hurry.notified()).await;
        }
    }

    async fn sample(&self, history: &mut VecDeque<Point>, diagnosis: Option<Arc<Diagnosis>>) -> Result<Snapshot> {
        let taken_at = Instant::now();
        let stats = self.client.stats().await?;
        let queues = self.client.queues().await?;
        // A role that may not see these still sees the rest.
        let waiting_inserts = self.client.waiting_inserts().await.ok().map(|waiting| waiting.len());
        let audited = self.client.audited_kinds().await.unwrap_or_default();
        let available = queues.iter().map(|queue| queue.available.counted() as f64).sum();
        if history.len() == POINTS {
            history.pop_front();
        }
        let rates = &stats.rates;
        history.push_back(Point {
            inserted: rates.inserted,
            completed: rates.completed,
            failed: rates.failed,
            available,
        });
        let history = history.clone();
        Ok(Snapshot { taken_at, stats, queues, waiting_inserts, audited, diagnosis, history, failure: None })
    }

    /// Keeps the last snapshot, and says why there is no newer one.
    fn fail(&self, failure: String) {
        tracing::warn!(failure, "the dashboard's sampler failed");
        self.latest.send_modify(|latest| {
            if let Some(snapshot) = latest {
                Arc::make_mut(snapshot).failure = Some(failure);
            }
        });
    }

    async fn diagnose_all(&self, latest: &watch::Sender<Option<Arc<Diagnosis>>>) {
        loop {
            match self.client.diagnose().timeout(CHECK_TIMEOUT).await {
                Ok(diagnosis) => {
                    latest.send_replace(Some(Arc::new(diagnosis)));
                }
                Err(error) => tracing::warn!(error = ?error.to_string(), "the dashboard's diagnosis failed"),
            }
            sleep(DIAGNOSE_EVERY).await;
        }
    }
}
