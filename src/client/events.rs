//! Events: from a client and its runners to subscribers, without either side waiting.
//!
//! The first subscriber creates a ring of the latest events. Publishing an event is a write into the ring. A subscriber
//! that falls behind by more than the ring holds loses the oldest events and learns how many. Without a subscriber no
//! event is built: publishers check first, once a batch.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::words::event::Event;

/// The default number of events that a subscriber may be behind.
pub(super) const EVENT_BUFFER: usize = 8_192;

/// Publishes events to the subscribers of one client and its clones.
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

    /// Whether there is a subscriber. Checked before an event is built.
    pub(crate) fn is_heard(&self) -> bool {
        self.subscribers.load(Ordering::Relaxed) > 0
    }

    /// Publishes an event. Never waits.
    pub(crate) fn tell(&self, event: Event) {
        if let Some(ring) = self.ring.get() {
            // An error means that the last subscriber has just gone.
            let _ = ring.send(event);
        }
    }

    pub(super) fn subscribe(&self) -> Events {
        let ring = self.ring.get_or_init(|| broadcast::Sender::new(self.buffer.max(1)));
        let receiver = ring.subscribe();
        self.subscribers.fetch_add(1, Ordering::Relaxed);
        Events { receiver, subscribers: Arc::clone(&self.subscribers), missed: 0 }
    }
}

/// A subscription to events. Made by [`Client::events`](crate::Client::events); ends when it is dropped.
#[derive(Debug)]
#[must_use = "events are lost unless they are received"]
pub struct Events {
    receiver: broadcast::Receiver<Event>,
    subscribers: Arc<AtomicUsize>,
    missed: u64,
}

impl Events {
    /// The next event. `None` when the client, its clones and its runners are all gone.
    ///
    /// It may be dropped while it waits, as in `tokio::select!`: no event is lost.
    pub async fn recv(&mut self) -> Option<Event> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(RecvError::Lagged(events)) => self.missed += events,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// How many events were lost since the last call, because the subscriber was too far behind. They came just
    /// before the event that was received last.
    pub fn missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.subscribers.fetch_sub(1, Ordering::Relaxed);
    }
}
