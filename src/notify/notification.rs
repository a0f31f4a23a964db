//! Notifications, and the channels that they come on.

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
