//! Queues and the jobs in them, and their counts that many clients of a process share.

use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::sleep;
use uniqueue::{Client, JobCount, JobState, QueueSettings, Result};

use crate::{Admin, List};

/// A queue and its jobs, as [`Admin::queues`] lists it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueInfo {
    /// Its settings.
    #[serde(flatten)]
    pub settings: QueueSettings,
    /// Its status in a word, as in the view `queue_status`: `paused`, `held`, `no runner`, `at its limit`, `working`, `waiting` or
    /// `idle`.
    #[serde(skip_serializing)]
    pub status: String,
    /// How many live runners work it.
    pub runners: u64,
    /// How long its oldest available job has been due. `None` if no job is available.
    #[serde(with = "uniqueue::period::seconds::option")]
    pub oldest_available_age: Option<Duration>,
    /// Jobs that wait for a free worker.
    pub available: JobCount,
    /// Jobs that were cancelled, or replaced by another job.
    pub cancelled: JobCount,
    /// Jobs that succeeded.
    pub completed: JobCount,
    /// Jobs that failed for good.
    pub discarded: JobCount,
    /// Jobs that are held back.
    pub pending: JobCount,
    /// Jobs that failed and wait for their next attempt.
    pub retryable: JobCount,
    /// Jobs that a worker runs.
    pub running: JobCount,
    /// Jobs that are not due yet.
    pub scheduled: JobCount,
}

impl QueueInfo {
    /// Returns the number of its jobs in a state.
    #[must_use]
    pub const fn count(&self, state: JobState) -> JobCount {
        match state {
            JobState::Available => self.available,
            JobState::Cancelled => self.cancelled,
            JobState::Completed => self.completed,
            JobState::Discarded => self.discarded,
            JobState::Pending => self.pending,
            JobState::Retryable => self.retryable,
            JobState::Running => self.running,
            JobState::Scheduled => self.scheduled,
        }
    }
}

impl<'a> Admin<'a> {
    /// Lists every queue that has settings, a live runner or jobs, by name, with its jobs by state. Default: all of them.
    ///
    /// It is equally quick for a queue of ten million jobs: counts stop at a limit, and beyond it are estimated
    /// from 500 pages of the table ([`JobCount`]). Final and pending jobs are counted among the last 20,000 inserted, waiting ones
    /// among the first 20,000 to be due, discarded ones among the last 20,000. A queue that has only older final jobs
    /// is missing.
    pub fn queues(self) -> List<'a, QueueInfo> {
        List::all(self.client, include_str!("sql/queues.sql")).count_up_to(10_000)
    }
}

impl List<'_, QueueInfo> {
    /// Counts the jobs of each queue and state no further than this. Default: 10,000. 1 asks only whether there are jobs, so nothing
    /// is estimated.
    pub fn count_up_to(self, up_to: u32) -> Self {
        self.with("count_up_to", up_to.min(i32::MAX.unsigned_abs() - 1))
    }
}

/// How long counts are shared.
const FRESH: Duration = Duration::from_secs(1);

/// How many times as long as a read the pause after it is.
const PAUSES: u32 = 9;

/// The last counts.
#[derive(Debug)]
struct Counted {
    began_at: Instant,
    ended_at: Instant,
    queues: Arc<[QueueInfo]>,
}

/// The queues of a client as [`Admin::queues`] lists them, read at most once a second, one read at a time: for processes that
/// answer many clients.
///
/// After [`changed`](Self::changed) the next answer is read anew. That answer waits until nine times the length of the last read
/// have passed since its end, at most a second. So reads that are faster than a ninth of a second take a tenth of a connection at
/// most.
#[derive(Debug)]
pub struct QueueCache {
    client: Client,
    counted: Mutex<Option<Counted>>,
    changed_at: StdMutex<Option<Instant>>,
}

impl QueueCache {
    /// A cache over the client's pool. Nothing is read yet.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, counted: Mutex::default(), changed_at: StdMutex::default() }
    }

    /// Notes that this process has changed jobs or queues.
    pub fn changed(&self) {
        *self.changed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// The queues by name. An answer contains every change that was noted before it was asked for. Its read ended at most a
    /// second before. Calls that come during a read wait for its answer.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database). The next call reads anew.
    pub async fn queues(&self) -> Result<Arc<[QueueInfo]>> {
        let asked_at = Instant::now();
        let changed_at = *self.changed_at.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counted = self.counted.lock().await;
        if let Some(Counted { began_at, ended_at, queues }) = &*counted {
            let is_current = changed_at.is_none_or(|at| at < *began_at) && ended_at.elapsed() < FRESH;
            if *began_at >= asked_at || is_current {
                return Ok(Arc::clone(queues));
            }
            let pause = ended_at.duration_since(*began_at).saturating_mul(PAUSES).min(FRESH);
            sleep(pause.saturating_sub(ended_at.elapsed())).await;
        }
        let began_at = Instant::now();
        let queues: Arc<[_]> = Admin::new(&self.client).queues().await?.into();
        *counted = Some(Counted { began_at, ended_at: Instant::now(), queues: Arc::clone(&queues) });
        Ok(queues)
    }
}
