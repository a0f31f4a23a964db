//! Subscribing to the events of a client, and publishing them.

use super::Client;
use super::events::{Bus, Events};
use crate::metrics;
use crate::words::event::{Event, Happened};
use crate::words::ident::{JobId, Kind, QueueName};

/// Publishes that an operator's change cancelled a job.
pub fn publish_cancelled(client: &Client, id: JobId, kind: Kind, queue: QueueName, attempt: u16) {
    client.publish(Event { id, kind, queue, attempt, happened: Happened::Cancelled { reason: None } });
}

impl Client {
    /// Subscribes to the events of this client, its clones and their runners, from now on. Events of other
    /// processes are not among them.
    ///
    /// Two changes that the database makes by itself have no event: a job that is due becomes available, and a job
    /// whose policy says so is discarded when it is promoted or fetched while another job holds its unique key.
    ///
    /// A subscriber never slows a runner: it may be 8,192 events behind
    /// ([`ClientBuilder::event_buffer`](super::ClientBuilder::event_buffer)). Then it loses the oldest, and
    /// [`Events::missed`] returns how many. Without a subscriber events cost nothing.
    ///
    /// ```no_run
    /// # use uniqueue::{Client, Happened};
    /// # async fn run(client: Client) {
    /// let mut events = client.events();
    /// tokio::spawn(async move {
    ///     while let Some(event) = events.recv().await {
    ///         if let Happened::Discarded { reason, .. } = &event.happened {
    ///             println!("{} {}: given up: {reason}", event.kind, event.id);
    ///         }
    ///     }
    /// });
    /// # }
    /// ```
    ///
    /// See [`Happened`](crate::Happened) for the events and their times.
    pub fn events(&self) -> Events {
        self.inner.bus.subscribe()
    }

    /// Counts a rare event in the history and the metrics, and publishes it if there is a subscriber.
    pub(crate) fn publish(&self, event: Event) {
        self.count_event(&event);
        metrics::count(&event.happened, &event.kind, &event.queue);
        if self.bus().is_heard() {
            self.bus().tell(event);
        }
    }

    pub(crate) fn bus(&self) -> &Bus {
        &self.inner.bus
    }
}
