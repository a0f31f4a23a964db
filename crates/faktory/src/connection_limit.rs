//! The limits of the number of connections.
//!
//! A client that has not said `HELLO` is a stranger. When there are too many strangers the oldest loses its connection to the new
//! one, so a health probe that connects is always greeted. Known clients have a limit of their own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

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

    /// A stranger's place. The token is cancelled when another takes it.
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

    /// Gives a stranger's place up.
    pub(crate) fn leave(&self, stranger: &CancellationToken) {
        stranger.cancel();
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
        limit.leave(&strangers[1]);
        limit.stranger();
        assert!(!strangers[0].is_cancelled(), "there was room");
        limit.stranger();
        assert!(strangers[0].is_cancelled() && !strangers[2].is_cancelled());
        assert!(limit.known().is_none());
        drop(known);
        assert!(limit.known().is_some());
    }
}
