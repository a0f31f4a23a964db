//! The queues that clients removed.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use uniqueue::QueueInfo;

/// The most names of removed queues that are remembered.
const MOST_REMOVED: usize = 10_000;

/// Queues that a client removed. They are not listed until they have waiting jobs again.
#[derive(Debug, Default)]
pub(crate) struct Removed(Mutex<HashSet<String>>);

impl Removed {
    pub(crate) fn add(&self, name: &str) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= MOST_REMOVED {
            names.clear();
        }
        names.insert(name.to_owned());
    }

    /// Whether a queue is listed.
    pub(crate) fn lists(&self, queue: &QueueInfo) -> bool {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.available.counted() > 0 {
            names.remove(queue.settings.name.as_str());
        }
        !names.contains(queue.settings.name.as_str())
    }
}
