//! One connection that listens for all places of a database.
//!
//! A server wakes every session of a database that listens for each transaction that notifies there, whatever the channel.
//! So the runners of one process listen over one connection.
//!
//! Invariant: no notification is lost without a gap. Each time the connection has come up, every runner is told of a gap, and
//! so is a runner that fell behind.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgListener;
use sqlx::{Acquire, Connection};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::notification::{Channels, Notification, listener};
use crate::client::connections::own_connections::OwnConnections;
use crate::client::connections::time_limit;
use crate::error::Result;
use crate::words::ident::SchemaName;

/// How many notifications a runner may be behind before it is told of a gap instead.
const BUFFER: usize = 1_024;

/// A connection that is silent for this time is asked whether it lives.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The wait before a lost connection is opened again.
pub(super) const RECONNECT_WAIT: Duration = Duration::from_secs(1);

/// Notifications of all places of a database, each with its schema. `None`: of all schemas.
type Heard = (Option<Arc<str>>, Notification);

/// The session that listens for all runners of a database.
#[derive(Debug)]
pub(crate) struct ListenHub {
    own: OwnConnections,
    schemas: Vec<SchemaName>,
    heard: broadcast::Sender<Heard>,
}

/// One schema's part of what is heard.
#[derive(Debug)]
pub(super) struct Hearing {
    schema: SchemaName,
    heard: broadcast::Receiver<Heard>,
}

impl ListenHub {
    /// A hub for these schemas of a database, over the connections of one of them. It hears nothing before it
    /// [listens](Self::listen).
    pub(crate) fn new(own: OwnConnections, schemas: Vec<SchemaName>) -> Self {
        Self { own, schemas, heard: broadcast::channel(BUFFER).0 }
    }

    pub(super) fn hear(&self, schema: &SchemaName) -> Hearing {
        Hearing { schema: schema.clone(), heard: self.heard.subscribe() }
    }

    /// Listens until it is to stop.
    pub(crate) async fn listen(self: Arc<Self>, stopping: CancellationToken) {
        let channels: Vec<(Arc<str>, Channels)> =
            self.schemas.iter().map(|schema| (Arc::from(schema.as_str()), Channels::of(schema))).collect();
        let listening = async {
            loop {
                match self.connect(&channels).await {
                    Ok(listener) => {
                        if let Err(error) = self.hear_until_lost(listener, &channels).await {
                            tracing::warn!(%error, "lost the connection that listens for notifications: polling goes on");
                        }
                    }
                    Err(error) => tracing::debug!(%error, "cannot listen for notifications yet, trying again"),
                }
                tokio::time::sleep(RECONNECT_WAIT).await;
            }
        };
        stopping.run_until_cancelled(listening).await;
    }

    async fn connect(&self, channels: &[(Arc<str>, Channels)]) -> Result<PgListener> {
        let names = channels.iter().flat_map(|(_, names)| names.names());
        let (_, listener) = time_limit::within(time_limit::CONNECT_TIMEOUT, listener(&self.own, names)).await?;
        Ok(listener)
    }

    /// Passes on what is heard, until the connection is lost.
    async fn hear_until_lost(&self, mut listener: PgListener, channels: &[(Arc<str>, Channels)]) -> Result<()> {
        let _ = self.heard.send((None, Notification::Gap));
        loop {
            match tokio::time::timeout(CHECK_INTERVAL, listener.try_recv()).await {
                Ok(Ok(Some(notification))) => {
                    let (channel, payload) = (notification.channel(), notification.payload());
                    let read =
                        |(schema, names): &(Arc<str>, Channels)| Some((schema.clone(), names.read(channel, payload)?));
                    if let Some((schema, notification)) = channels.iter().find_map(read) {
                        let _ = self.heard.send((Some(schema), notification));
                    }
                }
                Ok(Ok(None)) => return Err(sqlx::Error::WorkerCrashed.into()),
                Ok(Err(error)) => return Err(error.into()),
                // A connection that was cut off hears nothing for ever.
                Err(_) => {
                    let asking = async { Ok(listener.acquire().await?.ping().await?) };
                    time_limit::within(time_limit::CHECK_TIMEOUT, asking).await?;
                }
            }
        }
    }
}

impl Hearing {
    pub(super) async fn next(&mut self) -> Notification {
        loop {
            match self.heard.recv().await {
                Ok((None, notification)) => return notification,
                Ok((Some(schema), notification)) if *schema == *self.schema.as_str() => return notification,
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => return Notification::Gap,
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}
