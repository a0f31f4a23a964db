//! The line: the one connection on which a runner beats, asks and listens.
//!
//! States: *down*, where every runner begins and every trouble ends; and *up*. It comes up when it
//! is needed, and listens before anything else is sent over it.
//!
//! Invariants:
//! - Between two notifications that are heard, none was lost without [`Heard::Gap`]: PostgreSQL
//!   drops what is sent while nobody listens, so each time the line has come up, that is what is
//!   heard first.
//! - Hearing may be dropped at any time and loses nothing: sqlx takes a message out of its buffer
//!   only when the whole of it is there.
//! - A line that failed, or did not answer in time, is cut and never used again: what is left of it
//!   may hang for as long as the operating system has patience. A new one has a pool of its own.
//!
//! Failures: a line that goes down costs wake-ups, not jobs. Polling goes on, the next heartbeat
//! brings the line up again, and so does hearing, a second later.
//!
//! A line that is not to listen is for PgBouncer in transaction mode, where LISTEN succeeds and
//! nothing is ever heard.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{Acquire, PgConnection, PgPool};

use crate::error::Result;
use crate::ident::SchemaName;
use crate::store;

/// The wait before a lost line is tried again.
const RECONNECT_WAIT: Duration = Duration::from_secs(1);

/// A runner's own connection.
pub(crate) struct Line {
    options: PgConnectOptions,
    /// Where to listen. `None`: nowhere.
    channels: Option<Channels>,
    /// When the server ends a statement. `None`: as the role's setting has it.
    longest: Option<Duration>,
    up: Option<Up>,
    /// Whether the line came up and nobody was told yet.
    is_new: bool,
}

struct Channels {
    job: String,
    control: String,
}

struct Up {
    pool: PgPool,
    listener: PgListener,
}

/// What came over the line.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The line came up. Whatever was sent before is lost, and must be looked for.
    Gap,
    /// A queue has jobs.
    Jobs {
        /// The queue.
        queue: String,
    },
    /// Jobs were taken away from a runner.
    TakenAway {
        /// The runner's id.
        worker: String,
    },
}

impl Line {
    /// A line that is down, and will listen when it is up.
    pub(crate) fn listening(options: PgConnectOptions, schema: &SchemaName) -> Self {
        let channels = Channels { job: store::job_channel(schema), control: store::control_channel(schema) };
        Self { options, channels: Some(channels), longest: None, up: None, is_new: false }
    }

    /// A line that is down, and never listens.
    pub(crate) fn deaf(options: PgConnectOptions) -> Self {
        Self { options, channels: None, longest: None, up: None, is_new: false }
    }

    /// Has the server end each statement that takes longer than this. Only where what is set for a session stays with
    /// it: no pooler gives it to others.
    pub(crate) fn end_after(&mut self, longest: Duration) {
        self.longest = Some(longest);
    }

    /// The connection, for statements. What is heard meanwhile is kept.
    pub(crate) async fn connection(&mut self) -> Result<&mut PgConnection> {
        let up = match self.up.take() {
            Some(up) => up,
            None => {
                let up = self.connect().await?;
                self.is_new = true;
                up
            }
        };
        Ok(self.up.insert(up).listener.acquire().await?)
    }

    /// The next thing that comes over the line, for as long as that takes. Brings the line up again
    /// when it has gone down.
    pub(crate) async fn hear(&mut self) -> Heard {
        let Some(Channels { job, control }) = &self.channels else {
            return std::future::pending().await;
        };
        let (job, control) = (job.clone(), control.clone());
        loop {
            if let Err(error) = self.connection().await {
                tracing::debug!(%error, "nothing is heard yet");
                tokio::time::sleep(RECONNECT_WAIT).await;
                continue;
            }
            if std::mem::take(&mut self.is_new) {
                return Heard::Gap;
            }
            let Some(up) = &mut self.up else { continue };
            // `None`: the connection was lost. Of some losses sqlx makes an error.
            let problem = match up.listener.try_recv().await {
                Ok(Some(notification)) => {
                    let payload = notification.payload().to_owned();
                    match notification.channel() {
                        channel if channel == job => return Heard::Jobs { queue: payload },
                        channel if channel == control => return Heard::TakenAway { worker: payload },
                        _ => continue,
                    }
                }
                Ok(None) => "the connection was closed".to_owned(),
                Err(error) => error.to_string(),
            };
            tracing::warn!(problem, "lost the connection that listens for wake-ups; polling goes on");
            self.cut();
            tokio::time::sleep(RECONNECT_WAIT).await;
        }
    }

    /// Takes the line down without a word.
    pub(crate) fn cut(&mut self) {
        self.up = None;
    }

    /// Takes the line down in order.
    pub(crate) async fn close(mut self) {
        if let Some(Up { pool, listener }) = self.up.take() {
            drop(listener);
            pool.close().await;
        }
    }

    async fn connect(&self) -> Result<Up> {
        // A listener wants a pool. This one never has another connection.
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(self.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        if let Some(Channels { job, control }) = &self.channels {
            listener.listen_all([job.as_str(), control.as_str()]).await?;
        }
        if let Some(longest) = self.longest {
            store::end_after(listener.acquire().await?, longest).await?;
        }
        Ok(Up { pool, listener })
    }
}
