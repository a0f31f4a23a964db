//! Notifications, the channels that they come on, and the connection that listens.

use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{Acquire, PgPool};

use crate::client::connections::own_connections::OwnConnections;
use crate::error::Result;
use crate::store;
use crate::words::ident::SchemaName;

/// A notification, or a gap between notifications.
#[derive(Clone, Debug)]
pub(crate) enum Notification {
    /// The session came up. Earlier notifications may be lost, so the runner must query for their subjects.
    Gap,
    /// A queue has jobs.
    Jobs {
        /// The queue.
        queue: String,
    },
    /// A job with children ended.
    ParentEnded,
    /// Jobs of a runner were cancelled or given to another.
    TakenAway {
        /// The runner's id.
        worker: String,
    },
}

/// The channels of a schema.
pub(super) struct Channels {
    pub(super) job: String,
    pub(super) control: String,
}

impl Channels {
    pub(super) fn of(schema: &SchemaName) -> Self {
        Self { job: store::job_channel(schema), control: store::control_channel(schema) }
    }

    pub(super) fn names(&self) -> [&str; 2] {
        [&self.job, &self.control]
    }

    /// The meaning of a notification. `None`: it is on another channel.
    pub(super) fn read(&self, channel: &str, payload: &str) -> Option<Notification> {
        match channel {
            channel if channel == self.job => Some(Notification::Jobs { queue: payload.to_owned() }),
            channel if channel == self.control && payload == "releaser" => Some(Notification::ParentEnded),
            channel if channel == self.control => Some(Notification::TakenAway { worker: payload.to_owned() }),
            _ => None,
        }
    }
}

/// Opens a connection, checks where it leads to, and listens on these channels. A listener needs a pool, which never has another
/// connection.
pub(super) async fn listener<'n>(
    own: &OwnConnections,
    names: impl Iterator<Item = &'n str>,
) -> Result<(PgPool, PgListener)> {
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(own.options.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    own.check(listener.acquire().await?).await?;
    let names: Vec<_> = names.collect();
    if !names.is_empty() {
        listener.listen_all(names).await?;
    }
    Ok((pool, listener))
}
