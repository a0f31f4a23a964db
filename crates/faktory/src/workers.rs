//! The workers that are connected, by their `wid`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A worker that has not beaten for this long does not count as alive.
const SILENT: Duration = Duration::from_secs(60);

/// The state that `BEAT` sends to a worker. It only moves forward.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum WorkerState {
    Running,
    /// Finish what runs, and fetch nothing more.
    Quiet,
    /// Stop.
    Terminate,
}

impl WorkerState {
    pub(crate) fn read(text: &str) -> Self {
        match text {
            "quiet" => Self::Quiet,
            "terminate" => Self::Terminate,
            _ => Self::Running,
        }
    }

    /// The word of an answer. `None`: the worker goes on.
    pub(crate) const fn word(self) -> Option<&'static str> {
        match self {
            Self::Running => None,
            Self::Quiet => Some("quiet"),
            Self::Terminate => Some("terminate"),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Workers(Mutex<HashMap<String, Worker>>);

#[derive(Debug)]
struct Worker {
    connections: usize,
    state: WorkerState,
    beat_at: Instant,
}

impl Workers {
    /// Notes a connection of a worker.
    pub(crate) fn enter(&self, wid: &str) {
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Worker { connections: 0, state: WorkerState::Running, beat_at: Instant::now() };
        workers.entry(wid.to_owned()).or_insert_with(new).connections += 1;
    }

    /// Notes the end of a connection of a worker. Returns whether it was the worker's last.
    pub(crate) fn leave(&self, wid: &str) -> bool {
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(worker) = workers.get_mut(wid) else { return true };
        worker.connections = worker.connections.saturating_sub(1);
        let is_last = worker.connections == 0;
        if is_last {
            workers.remove(wid);
        }
        is_last
    }

    /// How many are connected.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Notes a sign of life, and the state that the worker says. Returns its state. `None`: no such worker is connected.
    pub(crate) fn beat(&self, wid: &str, says: Option<&str>) -> Option<WorkerState> {
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let worker = workers.get_mut(wid)?;
        worker.beat_at = Instant::now();
        worker.state = worker.state.max(says.map_or(WorkerState::Running, WorkerState::read));
        Some(worker.state)
    }

    pub(crate) fn state(&self, wid: &str) -> WorkerState {
        let workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        workers.get(wid).map_or(WorkerState::Running, |worker| worker.state)
    }

    /// Whether a worker has beaten lately.
    pub(crate) fn is_alive(&self, wid: &str) -> bool {
        let workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        workers.get(wid).is_some_and(|worker| worker.beat_at.elapsed() < SILENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_known_while_it_has_a_connection_and_never_goes_back() {
        let workers = Workers::default();
        assert_eq!(workers.beat("w", None), None);
        workers.enter("w");
        workers.enter("w");
        assert!(workers.is_alive("w"));
        for (says, state) in [
            (None, WorkerState::Running),
            (Some("quiet"), WorkerState::Quiet),
            (Some(""), WorkerState::Quiet),
            (Some("terminate"), WorkerState::Terminate),
            (Some("quiet"), WorkerState::Terminate),
        ] {
            assert_eq!(workers.beat("w", says), Some(state));
        }
        assert!(!workers.leave("w") && workers.leave("w"));
        assert_eq!(workers.beat("w", None), None);
    }
}
