//! One task reads the state of the queue for all pages and metrics of a process.
//!
//! It runs while a page that follows the queue, a scrape or a probe came within the last minute. So a dashboard that is not
//! looked at costs nothing, and fifty open tabs cost what one does. It also knows whether the database answers, so that in
//! an outage no page waits for it.

use std::future::IntoFuture;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uniqueue::{Client, Places, Result};
use uniqueue_admin::{
    Admin, AuditedKind, Diagnosis, Finding, History, QueueHistory, QueueInfo, RunnerInfo, Stats, diagnose_places,
};

use crate::shared::{HOUR, SHARED_FOR_LONG};

/// The time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);

/// The time between two diagnoses, of 27 checks each.
const DIAGNOSIS_INTERVAL: Duration = Duration::from_secs(30);

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
        let _ = timeout(SAMPLE_INTERVAL * 2, seen.wait_for(|seen| seen.failure.is_some() || is_newer(seen))).await;
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
            let _ = timeout(SAMPLE_INTERVAL, self.hurry.notified()).await;
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
            sleep(DIAGNOSIS_INTERVAL).await;
        }
    }
}

/// The age at which a sample is old: two samples after it are missing.
pub(crate) const OLD: Duration = Duration::from_secs(6);

/// The latest sample, and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// `None`: there was none yet.
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    /// Why there is no newer one: the last attempt failed. `None`: it did not fail.
    pub(crate) failure: Option<SampleFailure>,
}

/// An attempt at a sample that failed.
#[derive(Clone, Debug)]
pub(crate) struct SampleFailure {
    pub(crate) why: String,
    /// A statement took too long. So the database may answer others.
    pub(crate) is_slow: bool,
}

impl Seen {
    /// Why the sample is not to be taken for the state of now. `None`: it is new.
    pub(crate) fn problem(&self) -> Option<&str> {
        let is_new = self.snapshot.as_ref().is_some_and(|snapshot| snapshot.taken_at.elapsed() < OLD);
        match &self.failure {
            Some(failure) => Some(&failure.why),
            None if is_new => None,
            None => Some("its answer is late"),
        }
    }
}

/// The state of the queue at one time.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// When it was taken.
    pub(crate) taken_at: Instant,
    /// Counts, rates and times.
    pub(crate) stats: Stats,
    /// The queues.
    pub(crate) queues: Vec<QueueInfo>,
    /// How many inserts wait for other transactions. `None`: the role may not see it.
    pub(crate) waiting_inserts: Option<usize>,
    /// The kinds whose suppressed duplicates are counted.
    pub(crate) audited: Vec<AuditedKind>,
    /// The counts of each queue since it was first used. Empty: the role may not see them.
    pub(crate) totals: Arc<Vec<QueueHistory>>,
    /// The last findings of `doctor`, which is asked less often.
    pub(crate) doctor: Doctor,
    /// The history of the last hour. `None`: the role may not see it.
    pub(crate) hour: Option<Arc<History>>,
}

/// The last look of `doctor`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doctor {
    /// `None`: it has not answered yet.
    pub(crate) diagnosis: Option<Arc<Diagnosis>>,
    /// The error of the last diagnosis, if it failed.
    pub(crate) failure: Option<String>,
    /// The version of the runners that started last. `None`: they did not say.
    pub(crate) deploy: Option<Deploy>,
}

/// A version of the application, and when its first live runner started.
#[derive(Clone, Debug)]
pub(crate) struct Deploy {
    pub(crate) version: String,
    pub(crate) at: OffsetDateTime,
}

impl Deploy {
    /// The last deploy that live runners tell of.
    pub(crate) fn last(runners: &[RunnerInfo]) -> Option<Self> {
        let of = |runner: &&RunnerInfo| runner.is_alive && runner.version.is_some();
        let last = runners.iter().filter(of).max_by_key(|runner| runner.started_at)?;
        let first =
            runners.iter().filter(of).filter(|one| one.version == last.version).map(|one| one.started_at).min()?;
        Some(Self { version: last.version.clone()?, at: first })
    }
}

impl Snapshot {
    /// The database's time now.
    pub(crate) fn now(&self) -> OffsetDateTime {
        self.stats.asked_at + self.taken_at.elapsed()
    }
}

/// How old findings may be before the places are compared again.
const COMPARISON_INTERVAL: Duration = Duration::from_secs(30);

/// How long a page waits for the first findings.
const FIRST_COMPARISON: Duration = Duration::from_secs(1);

/// Findings, and when they were made.
type Found = Option<(Instant, Arc<[Finding]>)>;

/// Compares the places of a map.
pub(crate) struct Across {
    places: Places,
    stop: CancellationToken,
    found: watch::Sender<Found>,
    is_comparing: AtomicBool,
}

impl Across {
    pub(crate) fn new(places: Places, stop: CancellationToken) -> Self {
        Self { places, stop, found: watch::Sender::default(), is_comparing: AtomicBool::new(false) }
    }

    /// The last findings. `None`: the first comparison is not over.
    pub(crate) async fn latest(self: &Arc<Self>) -> Option<Arc<[Finding]>> {
        let mut found = self.found.subscribe();
        let is_old = found.borrow().as_ref().is_none_or(|(at, _)| at.elapsed() > COMPARISON_INTERVAL);
        if is_old && !self.is_comparing.swap(true, Ordering::AcqRel) {
            let across = Arc::clone(self);
            tokio::spawn(async move {
                tokio::select! {
                    findings = diagnose_places(&across.places) => {
                        across.found.send_replace(Some((Instant::now(), findings.into())));
                    }
                    () = across.stop.cancelled() => {}
                }
                across.is_comparing.store(false, Ordering::Release);
            });
        }
        let _ = timeout(FIRST_COMPARISON, found.wait_for(Option::is_some)).await;
        found.borrow().as_ref().map(|(_, findings)| Arc::clone(findings))
    }
}
