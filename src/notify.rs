//! The session of a runner: the one connection over which it sends heartbeats and receives notifications.
//!
//! States: *down*, at the start and after every failure; and *up*. It comes up when it is needed, and
//! listens before any other statement is sent over it.
//!
//! Invariants:
//! - No notification is lost without [`Notification::Gap`]: PostgreSQL drops notifications while no session
//!   listens, so each time the session has come up, a gap is returned first.
//! - [`RunnerSession::next_notification`] may be cancelled at any time and loses nothing: sqlx takes a message out of its
//!   buffer only when the whole message has arrived.
//! - A session that failed, or did not answer in time, is cut and never used again: closing a dead
//!   connection can hang until the operating system gives up on it. A new one has a pool of its own.
//!
//! Failures: a session that goes down costs wake-ups, not jobs. Polling goes on. The next heartbeat
//! brings the session up again, and so does [`RunnerSession::next_notification`] after a second.
//!
//! A session that does not listen is for PgBouncer in transaction mode, where LISTEN succeeds and no
//! notification ever arrives.

mod hub;
mod notification;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgListener;
use sqlx::{Acquire, PgConnection, PgPool};

pub(crate) use self::hub::ListenHub;
pub(crate) use self::notification::Notification;

use self::hub::{Hearing, RECONNECT_WAIT};
use self::notification::{Channels, listener};
use crate::client::connections::own_connections::OwnConnections;
use crate::error::Result;
use crate::store;
use crate::words::ident::SchemaName;

/// A runner's own connection.
pub(crate) struct RunnerSession {
    own: OwnConnections,
    /// The channels to listen on. `None`: the session does not listen.
    channels: Option<Channels>,
    /// Notifications that another connection hears.
    hearing: Option<Hearing>,
    /// The statement timeout. `None`: the role's own.
    longest: Option<Duration>,
    up: Option<Up>,
    /// Whether the session came up and the gap was not returned yet.
    is_new: bool,
}

struct Up {
    pool: PgPool,
    listener: PgListener,
}

impl RunnerSession {
    /// A session that is down, and will listen when it is up.
    pub(crate) fn listening(own: OwnConnections, schema: &SchemaName) -> Self {
        Self { channels: Some(Channels::of(schema)), ..Self::without_listening(own) }
    }

    /// A session that is down, of a runner that a hub of its database tells of notifications.
    pub(crate) fn hearing(own: OwnConnections, schema: &SchemaName, hub: &Arc<ListenHub>) -> Self {
        Self { hearing: Some(hub.hear(schema)), ..Self::without_listening(own) }
    }

    /// A session that is down, and never listens.
    pub(crate) fn without_listening(own: OwnConnections) -> Self {
        Self { own, channels: None, hearing: None, longest: None, up: None, is_new: false }
    }

    /// Sets the statement timeout. Not behind a transaction pooler, where session settings would reach other clients.
    pub(crate) fn end_after(&mut self, longest: Duration) {
        self.longest = Some(longest);
    }

    /// The connection, for statements. Notifications that arrive meanwhile are kept.
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

    /// Waits for the next notification. Brings the session up again when it has gone down.
    pub(crate) fn next_notification(&mut self) -> Pin<Box<dyn Future<Output = Notification> + Send + '_>> {
        Box::pin(self.receive())
    }

    async fn receive(&mut self) -> Notification {
        if let Some(hearing) = &mut self.hearing {
            return hearing.next().await;
        }
        if self.channels.is_none() {
            return std::future::pending().await;
        }
        loop {
            if let Err(error) = self.connection().await {
                tracing::debug!(%error, "cannot listen for notifications yet, trying again");
                tokio::time::sleep(RECONNECT_WAIT).await;
                continue;
            }
            if std::mem::take(&mut self.is_new) {
                return Notification::Gap;
            }
            let Some(up) = &mut self.up else { continue };
            // A lost connection is `None` or an error, depending on how it was lost.
            let problem = match up.listener.try_recv().await {
                Ok(Some(notification)) => {
                    let channels = self.channels.as_ref();
                    match channels.and_then(|names| names.read(notification.channel(), notification.payload())) {
                        Some(notification) => return notification,
                        None => continue,
                    }
                }
                Ok(None) => "the connection was closed".to_owned(),
                Err(error) => error.to_string(),
            };
            tracing::warn!(problem, "lost the connection that listens for notifications: polling goes on");
            self.cut();
            tokio::time::sleep(RECONNECT_WAIT).await;
        }
    }

    /// Drops the connection without closing it.
    pub(crate) fn cut(&mut self) {
        self.up = None;
    }

    /// Closes the connection.
    pub(crate) async fn close(mut self) {
        if let Some(Up { pool, listener }) = self.up.take() {
            drop(listener);
            pool.close().await;
        }
    }

    async fn connect(&self) -> Result<Up> {
        let names = self.channels.iter().flat_map(Channels::names);
        let (pool, mut listener) = listener(&self.own, names).await?;
        if let Some(longest) = self.longest {
            store::end_after(listener.acquire().await?, longest).await?;
        }
        Ok(Up { pool, listener })
    }
}
