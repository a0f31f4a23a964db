//! How many connections there are.
//!
//! A client that has not said `HELLO` is a stranger. When there are too many strangers the oldest loses its connection to the new
//! one, so a health probe that connects is always greeted. Clients that are known have places of their own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The most strangers.
const STRANGERS: usize = 64;

#[derive(Debug)]
pub(crate) struct Places {
    strangers: Mutex<VecDeque<CancellationToken>>,
    known: Arc<Semaphore>,
}

impl Places {
    pub(crate) fn new(most: usize) -> Self {
        Self { strangers: Mutex::default(), known: Arc::new(Semaphore::new(most)) }
    }

    /// A stranger's place. The token is cancelled when another takes it.
    pub(crate) fn stranger(&self) -> CancellationToken {
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have gone, or are known by now, have given their places up.
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
        let places = Places::new(1);
        let known = places.known().unwrap();
        let strangers: Vec<_> = (0..STRANGERS).map(|_| places.stranger()).collect();
        places.leave(&strangers[1]);
        places.stranger();
        assert!(!strangers[0].is_cancelled(), "there was room");
        places.stranger();
        assert!(strangers[0].is_cancelled() && !strangers[2].is_cancelled());
        assert!(places.known().is_none());
        drop(known);
        assert!(places.known().is_some());
    }
}
