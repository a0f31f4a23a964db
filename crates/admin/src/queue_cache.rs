//! Counts of queues that many clients of a process share.

use std::fmt;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::sleep;
use uniqueue::{Client, Result};

use crate::{Admin, QueueInfo};

/// How long counts are shared.
const FRESH: Duration = Duration::from_secs(1);

/// How many times as long as a read the pause after it is.
const PAUSES: u32 = 9;

/// The last counts.
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

impl fmt::Debug for QueueCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueCache").field("client", &self.client).finish_non_exhaustive()
    }
}
