//! The limits of the number of connections.
//!
//! A client that has not said `HELLO` is a stranger. When there are too many strangers the oldest loses its connection to the new
//! one, so a health probe that connects is always greeted. Known clients have a limit of their own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most connections of clients that have said `HELLO`. Default: 1,000. 64 others may be open besides.
    pub connections: usize,
    /// The most bytes of a command. Default: 16 MiB.
    pub message: usize,
    /// How long a TLS handshake and the greeting may take. Default: 10 s.
    pub greeting: Duration,
    /// How long a command may take to arrive, and a reply to be read. Default: 30 s.
    pub transfer: Duration,
    /// How long a connection may send nothing. A worker that beats may be silent on its other connections. Default: 1 h.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1_000,
            message: 16 * 1024 * 1024,
            greeting: Duration::from_secs(10),
            transfer: Duration::from_secs(30),
            idle: Duration::from_secs(3_600),
        }
    }
}

/// The most strangers.
const STRANGERS: usize = 64;

#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    strangers: Mutex<VecDeque<CancellationToken>>,
    known: Arc<Semaphore>,
}

impl ConnectionLimit {
    pub(crate) fn new(most: usize) -> Self {
        Self { strangers: Mutex::default(), known: Arc::new(Semaphore::new(most)) }
    }

    /// A place for a client that has not greeted. If a newer client needs the place, the token is cancelled.
    pub(crate) fn stranger(&self) -> CancellationToken {
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        // Connections that have closed or greeted have given their places up.
        strangers.retain(|stranger| !stranger.is_cancelled());
        if strangers.len() >= STRANGERS
            && let Some(oldest) = strangers.pop_front()
        {
            oldest.cancel();
        }
        let token = CancellationToken::new();
        strangers.push_back(token.clone());
        token
    }

    /// The place of a known client. `None`: there is none left.
    pub(crate) fn known(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.known).try_acquire_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_stranger_loses_its_place_and_a_known_client_keeps_its_own() {
        let limit = ConnectionLimit::new(1);
        let known = limit.known().unwrap();
        let strangers: Vec<_> = (0..STRANGERS).map(|_| limit.stranger()).collect();
        strangers[1].cancel();
        limit.stranger();
        assert!(!strangers[0].is_cancelled(), "there was room");
        limit.stranger();
        assert!(strangers[0].is_cancelled() && !strangers[2].is_cancelled());
        assert!(limit.known().is_none());
        drop(known);
        assert!(limit.known().is_some());
    }
}
