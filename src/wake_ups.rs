//! Wake-ups of remote workers.

use std::fmt;

use crate::client::Client;
use crate::notify::{Notification, RunnerSession};

/// The wake-ups of remote workers, over a connection of its own, which listens from the first
/// [`next`](Self::next) on.
///
/// A fetch that [listens](crate::FetchJobs::listens) and returns no job has the next insert wake the worker. Wake-ups save
/// time, and can be lost: a worker also polls, once a second or so. Behind PgBouncer in transaction mode none arrive.
///
/// ```no_run
/// # use std::time::Duration;
/// # use uniqueue::{Client, WakeUps};
/// # async fn run(client: Client) -> uniqueue::Result<()> {
/// let mut wake_ups = WakeUps::new(&client);
/// loop {
///     let jobs = client.remote().fetch_jobs(["emails"], "worker-1").listens().await?;
///     if jobs.is_empty() {
///         let _ = tokio::time::timeout(Duration::from_secs(1), wake_ups.next()).await;
///     }
///     // …
/// }
/// # }
/// ```
pub struct WakeUps(RunnerSession);

/// A wake-up of remote workers.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum WakeUp {
    /// The connection was opened, for the first time or again. Earlier wake-ups may be lost.
    Connected,
    /// A queue has jobs.
    Jobs {
        /// The queue.
        queue: String,
    },
    /// Running jobs of a worker were cancelled or taken back.
    TakenAway {
        /// The worker's id, as [`FetchedJob::worker`](crate::FetchedJob::worker).
        worker: String,
    },
}

impl WakeUps {
    /// For workers of this client's schema. Nothing is sent yet.
    #[must_use]
    pub fn new(client: &Client) -> Self {
        Self(RunnerSession::listening(client.own_connections(), client.schema()))
    }

    /// Waits for the next wake-up. A lost connection is opened again, once a second. May be cancelled at any time.
    pub async fn next(&mut self) -> WakeUp {
        loop {
            match self.0.next_notification().await {
                Notification::Gap => return WakeUp::Connected,
                Notification::Jobs { queue } => return WakeUp::Jobs { queue },
                Notification::TakenAway { worker } => return WakeUp::TakenAway { worker },
                Notification::ParentEnded => {}
            }
        }
    }
}

impl fmt::Debug for WakeUps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeUps").finish_non_exhaustive()
    }
}
