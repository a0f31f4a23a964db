//! One task reads the state of the queue for all pages and metrics of a process.
//!
//! It runs while a page that follows the queue, a scrape or a probe came within the last minute. So a dashboard that is not
//! looked at costs nothing, and fifty open tabs cost what one does. It also knows whether the database answers, so that in
//! an outage no page waits for it.

use std::future::IntoFuture;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uniqueue::{Client, Result};
use uniqueue_admin::{Admin, History, QueueHistory};

use crate::clock::HOUR;
use crate::shared::SHARED_FOR_LONG;
use crate::snapshot::{Deploy, Doctor, OLD, SampleFailure, Seen, Snapshot};

/// The time between two samples.
const EVERY: Duration = Duration::from_secs(2);

/// The time between two diagnoses, of 27 checks each.
const DIAGNOSE_EVERY: Duration = Duration::from_secs(30);

/// The longest that one sample or one check takes.
const TIMEOUT: Duration = Duration::from_secs(5);
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the task goes on after the last request.
const LINGER: Duration = Duration::from_secs(60);

/// How long a request waits for the first sample, and for a newer one where there is an old one.
const FIRST: Duration = Duration::from_secs(5);
const NEWER: Duration = Duration::from_secs(1);

/// Reads the state of the queue, while it is asked for.
pub(crate) struct Sampler {
    client: Client,
    stop: CancellationToken,
    seen: watch::Sender<Seen>,
    task: Mutex<Task>,
    /// Counts samples, and changes from the dashboard.
    round: AtomicU64,
    /// Ends the wait for the next sample.
    hurry: Notify,
}

struct Task {
    started_at: Instant,
    wanted_at: Instant,
    handle: Option<JoinHandle<()>>,
}

/// The parts of a sample that grow once a minute.
#[derive(Default)]
struct Past {
    totals: Kept<Vec<QueueHistory>>,
    hour: Kept<History>,
}

/// The last answer, and the time of the last attempt to read it. `None`: there was no attempt.
struct Kept<T>(Option<(Instant, Option<Arc<T>>)>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Kept<T> {
    /// The answer, read again where it is old. If that fails, the former answer stays, and the next attempt comes as late as after
    /// an answer. `None`: the answer was never read, for example because the role may not read it.
    async fn renewed(&mut self, ask: impl IntoFuture<Output = Result<T>>) -> Option<Arc<T>> {
        if self.0.as_ref().is_none_or(|(read_at, _)| read_at.elapsed() > SHARED_FOR_LONG) {
            let former = self.0.take().and_then(|(_, answer)| answer);
            self.0 = Some((Instant::now(), ask.await.ok().map(Arc::new).or(former)));
        }
        self.0.as_ref().and_then(|(_, answer)| answer.clone())
    }
}

impl Sampler {
    pub(crate) fn new(client: Client, stop: CancellationToken) -> Self {
        let task = Mutex::new(Task { started_at: Instant::now(), wanted_at: Instant::now(), handle: None });
        let (seen, round, hurry) = (watch::Sender::default(), AtomicU64::new(0), Notify::new());
        Self { client, stop, seen, task, round, hurry }
    }

    /// The latest sample, or why there is none. An attempt that failed is an answer as well: nothing waits for the next one.
    pub(crate) async fn latest(self: &Arc<Self>) -> Seen {
        self.want();
        let mut seen = self.seen.subscribe();
        let patience = if seen.borrow().snapshot.is_some() { NEWER } else { FIRST };
        let _ = timeout(patience, seen.wait_for(|seen| seen.failure.is_some() || seen.problem().is_none())).await;
        seen.borrow().clone()
    }

    /// The newest sample, without waiting for another.
    pub(crate) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Takes a sample after a change, so that the next page shows it.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        self.want();
        let mut seen = self.seen.subscribe();
        self.hurry.notify_one();
        let asked_at = Instant::now();
        let is_newer = |seen: &Seen| seen.snapshot.as_ref().is_some_and(|one| one.taken_at >= asked_at);
        let _ = timeout(EVERY * 2, seen.wait_for(|seen| seen.failure.is_some() || is_newer(seen))).await;
    }

    /// Whether a sample is missing although the task has had time for it: the database may hang.
    pub(crate) fn is_late(&self) -> bool {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = task.handle.as_ref().is_some_and(|handle| !handle.is_finished());
        runs && task.started_at.elapsed() > OLD && self.seen.borrow().problem().is_some()
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
    pub(crate) fn want(self: &Arc<Self>) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        task.wanted_at = Instant::now();
        if task.handle.as_ref().is_none_or(JoinHandle::is_finished) {
            // What failed a while ago says nothing of now.
            self.seen.send_modify(|seen| seen.failure = None);
            task.started_at = Instant::now();
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
        task.wanted_at.elapsed() < LINGER
    }

    async fn run(&self) {
        let doctor = watch::Sender::default();
        tokio::select! {
            () = self.sample_all(&doctor) => {}
            () = self.diagnose_all(&doctor) => {}
        }
    }

    async fn sample_all(&self, doctor: &watch::Sender<Doctor>) {
        let mut past = Past::default();
        while self.is_wanted() {
            let found = doctor.borrow().clone();
            match timeout(TIMEOUT, self.sample(&mut past, found)).await {
                Ok(Ok(snapshot)) => {
                    // First: a tab that hears of the sample reads what is new.
                    self.next_round();
                    self.seen.send_replace(Seen { snapshot: Some(Arc::new(snapshot)), failure: None });
                }
                Ok(Err(error)) => self.fail(error.to_string(), error.is_statement_timeout()),
                Err(_) => self.fail(format!("no answer within {} s", TIMEOUT.as_secs()), true),
            }
            let _ = timeout(EVERY, self.hurry.notified()).await;
        }
    }

    async fn sample(&self, past: &mut Past, doctor: Doctor) -> Result<Snapshot> {
        let taken_at = Instant::now();
        let stats = Admin::new(&self.client).stats().await?;
        let queues = Admin::new(&self.client).queues().await?;
        // A role that may not see these still sees the rest.
        let waiting_inserts = Admin::new(&self.client).waiting_inserts().await.ok().map(|waiting| waiting.len());
        let audited = Admin::new(&self.client).audited_kinds().await.unwrap_or_default();
        let totals = past.totals.renewed(Admin::new(&self.client).history_totals()).await.unwrap_or_default();
        let hour = past.hour.renewed(Admin::new(&self.client).history(HOUR)).await;
        Ok(Snapshot { taken_at, stats, queues, waiting_inserts, audited, totals, doctor, hour })
    }

    /// Keeps the last snapshot, and says why there is no newer one.
    fn fail(&self, why: String, is_slow: bool) {
        tracing::warn!(failure = why, "the dashboard's sampler failed");
        self.seen.send_modify(|seen| seen.failure = Some(SampleFailure { why, is_slow }));
    }

    async fn diagnose_all(&self, doctor: &watch::Sender<Doctor>) {
        loop {
            match Admin::new(&self.client).diagnose().timeout(CHECK_TIMEOUT).await {
                Ok(diagnosis) => {
                    let runners = Admin::new(&self.client).runners().timeout(CHECK_TIMEOUT).await.unwrap_or_default();
                    let (diagnosis, deploy) = (Some(Arc::new(diagnosis)), Deploy::last(&runners));
                    doctor.send_replace(Doctor { diagnosis, failure: None, deploy });
                }
                Err(error) => {
                    tracing::warn!(error = ?error.to_string(), "the dashboard's diagnosis failed");
                    doctor.send_modify(|doctor| doctor.failure = Some(error.to_string()));
                }
            }
            sleep(DIAGNOSE_EVERY).await;
        }
    }
}
