//! Wake-ups of remote workers.

use std::fmt;
use std::time::Duration;

use sqlx::postgres::{PgListener, PgNotification, PgPoolOptions};
use uniqueue::Client;

/// The wait before a lost connection is opened again.
const RECONNECT_WAIT: Duration = Duration::from_secs(1);

/// The wake-ups of remote workers, over a connection of its own, which listens from the first
/// [`next`](Self::next) on.
///
/// A fetch that [listens](crate::FetchJobs::listens) and returns no job has the next insert wake the worker. Wake-ups save
/// time, and can be lost: a worker also polls, once a second or so. Behind PgBouncer in transaction mode none arrive.
///
/// ```no_run
/// # use std::time::Duration;
/// # use uniqueue::Client;
/// # use uniqueue_remote::{Remote, WakeUps};
/// # async fn run(client: Client) -> uniqueue::Result<()> {
/// let mut wake_ups = WakeUps::new(&client);
/// loop {
///     let jobs = Remote::new(&client).fetch_jobs(["emails"], "worker-1").listens().await?;
///     if jobs.is_empty() {
///         let _ = tokio::time::timeout(Duration::from_secs(1), wake_ups.next()).await;
///     }
///     // …
/// }
/// # }
/// ```
pub struct WakeUps {
    client: Client,
    /// `None`: there is no connection.
    listener: Option<PgListener>,
}

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
        Self { client: client.clone(), listener: None }
    }

    /// Waits for the next wake-up. A lost connection is opened again, once a second. A call that is dropped loses no wake-up. If it
    /// is dropped while it connects, the next call connects anew: give it as long as a connection takes.
    pub async fn next(&mut self) -> WakeUp {
        loop {
            match self.hear().await {
                Ok(Some(wake_up)) => return wake_up,
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(%error, "no connection listens for wake-ups, trying again");
                    self.listener = None;
                    tokio::time::sleep(RECONNECT_WAIT).await;
                }
            }
        }
    }

    /// The next notification. `None`: it wakes no worker.
    async fn hear(&mut self) -> sqlx::Result<Option<WakeUp>> {
        if let Some(listener) = &mut self.listener {
            let heard = listener.try_recv().await?.ok_or(sqlx::Error::WorkerCrashed)?;
            return Ok(self.read(&heard));
        }
        // A listener needs a pool, which never has another connection.
        let options = (*self.client.pool().connect_options()).clone();
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        listener.listen_all([self.channel("job").as_str(), self.channel("control").as_str()]).await?;
        self.listener = Some(listener);
        Ok(Some(WakeUp::Connected))
    }

    fn channel(&self, name: &str) -> String {
        format!("{}.{name}", self.client.schema())
    }

    fn read(&self, heard: &PgNotification) -> Option<WakeUp> {
        let payload = heard.payload().to_owned();
        match heard.channel() {
            channel if channel == self.channel("job") => Some(WakeUp::Jobs { queue: payload }),
            _ if payload == "releaser" => None,
            _ => Some(WakeUp::TakenAway { worker: payload }),
        }
    }
}

impl fmt::Debug for WakeUps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeUps").finish_non_exhaustive()
    }
}
