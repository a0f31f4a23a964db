//! Events: from a client and its runners to whoever listens, without anybody waiting for anybody.
//!
//! A ring of the latest events is made when the first subscriber comes. Telling one is a write into
//! the ring, and a subscriber that is slower than the ring is long loses the oldest and is told how
//! many. Without a subscriber nothing is made: whoever would tell asks first, once a batch.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::Client;
use crate::event::Event;
use crate::metrics;

/// How many events a subscriber may be behind, unless the client says otherwise.
pub(super) const EVENT_BUFFER: usize = 8_192;

/// Tells events to the subscribers of one client and its clones.
#[derive(Debug)]
pub(crate) struct Bus {
    subscribers: Arc<AtomicUsize>,
    ring: OnceLock<broadcast::Sender<Event>>,
    buffer: usize,
}

impl Bus {
    pub(super) fn new(buffer: usize) -> Self {
        Self { subscribers: Arc::default(), ring: OnceLock::new(), buffer }
    }

    /// Whether anybody listens. Asked before an event is made.
    pub(crate) fn is_heard(&self) -> bool {
        self.subscribers.load(Ordering::Relaxed) > 0
    }

    /// Tells those who listen. Never waits.
    pub(crate) fn tell(&self, event: Event) {
        if let Some(ring) = self.ring.get() {
            // An error says that the last subscriber has just gone.
            let _ = ring.send(event);
        }
    }

    fn subscribe(&self) -> Events {
        let ring = self.ring.get_or_init(|| broadcast::Sender::new(self.buffer.max(1)));
        let receiver = ring.subscribe();
        self.subscribers.fetch_add(1, Ordering::Relaxed);
        Events { receiver, subscribers: Arc::clone(&self.subscribers), missed: 0 }
    }
}

/// A subscription to events. Made by [`Client::events`]; ends when it is dropped.
#[derive(Debug)]
#[must_use = "events go by unless they are received"]
pub struct Events {
    receiver: broadcast::Receiver<Event>,
    subscribers: Arc<AtomicUsize>,
    missed: u64,
}

impl Events {
    /// The next event. `None` when the client, its clones and its runners are all gone.
    ///
    /// May be dropped while it waits, as in `tokio::select!`; no event is lost.
    pub async fn recv(&mut self) -> Option<Event> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(RecvError::Lagged(events)) => self.missed += events,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// How many events went by unreceived since this was last asked, because the subscriber was too
    /// far behind. They lie just before the event that was received last.
    pub fn missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.subscribers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Client {
    /// Subscribes to what this client, its clones and the runners made from them do to jobs, from
    /// now on. What other processes do is not told here.
    ///
    /// Two things that the database does by itself are not told: a job that is due becomes available,
    /// and a job whose policy says so is discarded when it is promoted or fetched while another job
    /// holds its unique key.
    ///
    /// A subscriber can never slow a runner: it may be 8,192 events behind
    /// ([`ClientBuilder::event_buffer`](super::ClientBuilder::event_buffer)), then it loses the
    /// oldest, and [`Events::missed`] tells how many. Without a subscriber events cost nothing.
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
    /// See [`Happened`](crate::Happened) for what is told, and when.
    pub fn events(&self) -> Events {
        self.inner.bus.subscribe()
    }

    /// Counts an event that is too rare to keep a meter for, and tells those who listen.
    pub(crate) fn tell(&self, event: Event) {
        metrics::count(&event.happened, &event.kind, &event.queue);
        if self.bus().is_heard() {
            self.bus().tell(event);
        }
    }

    pub(crate) fn bus(&self) -> &Bus {
        &self.inner.bus
    }
}
