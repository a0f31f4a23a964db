//! The places of connections. A new connection always gets one: when all are taken, the connection that has waited longest
//! for its next request loses its place.
//!
//! ```text
//! waiting (no request, a part of one, or an answer that the client does not read) ─▶ working ─▶ waiting
//!    └─▶ closed, for a new connection
//! ```
//!
//! - Connections that never showed right credentials lose their places first. So clients without a password displace each
//!   other, however many they are, and a probe that sends its request at once is answered.
//! - A request that is worked on is never interrupted. At most as many requests as places are worked on, and there are
//!   `RESERVE` places more than that, so a connection that can lose its place is always found.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Places beyond those of the limit, for probes while requests are worked on in all of the others.
const RESERVE: usize = 16;

/// All places.
#[derive(Default)]
pub(super) struct Places {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    places: HashMap<u64, Arc<Place>>,
}

/// The place of one connection.
pub(super) struct Place {
    state: Mutex<State>,
    closed: CancellationToken,
}

#[derive(Clone, Copy)]
struct State {
    stage: Stage,
    /// Whether a request showed right credentials.
    is_trusted: bool,
}

#[derive(Clone, Copy)]
enum Stage {
    Waiting(Instant),
    Working,
    Closed,
}

/// Gives the place up when it is dropped.
pub(super) struct Taken {
    places: Arc<Places>,
    number: u64,
    pub(super) place: Arc<Place>,
}

impl Places {
    /// Takes a place. Returns whether another connection lost it. `None`: no place can be had.
    pub(super) fn take(self: &Arc<Self>, most: usize) -> Option<(Taken, bool)> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = open.places.len() >= most + RESERVE;
        if is_full {
            let waiting = open.places.iter().filter_map(|(number, place)| Some((place.waits_since()?, *number)));
            let (_, number) = waiting.min()?;
            // A request that began since then keeps its place, and the new connection gets none.
            open.places.get(&number).filter(|place| place.close())?;
            open.places.remove(&number);
        }
        let state = Mutex::new(State { stage: Stage::Waiting(Instant::now()), is_trusted: false });
        let place = Arc::new(Place { state, closed: CancellationToken::new() });
        let number = open.next;
        open.next += 1;
        open.places.insert(number, Arc::clone(&place));
        Some((Taken { places: Arc::clone(self), number, place }, is_full))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.places.open.lock().unwrap_or_else(PoisonError::into_inner).places.remove(&self.number);
    }
}

impl Place {
    /// Begins a request. `None`: the connection has lost its place.
    pub(super) fn work(self: &Arc<Self>) -> Option<Working> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(state.stage, Stage::Closed) {
            return None;
        }
        state.stage = Stage::Working;
        Some(Working(Arc::clone(self)))
    }

    /// Notes that a request showed right credentials.
    pub(super) fn trust(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_trusted = true;
    }

    /// Completes when the connection has lost its place, or has waited this long.
    pub(super) async fn lost(&self, after: Duration) {
        let waited = async {
            loop {
                let stage = self.state.lock().unwrap_or_else(PoisonError::into_inner).stage;
                let left = match stage {
                    Stage::Waiting(since) => after.saturating_sub(since.elapsed()),
                    Stage::Working | Stage::Closed => after,
                };
                if left.is_zero() {
                    return;
                }
                sleep(left).await;
            }
        };
        tokio::select! {
            () = self.closed.cancelled() => {}
            () = waited => {}
        }
    }

    /// The order in which connections lose their places. `None`: it works on a request.
    fn waits_since(&self) -> Option<(bool, Instant)> {
        let state = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.stage {
            Stage::Waiting(since) => Some((state.is_trusted, since)),
            Stage::Working | Stage::Closed => None,
        }
    }

    /// Takes the place away from a connection that waits. Returns whether it did.
    fn close(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = matches!(state.stage, Stage::Waiting(_));
        if waits {
            state.stage = Stage::Closed;
            self.closed.cancel();
        }
        waits
    }
}

/// A request that is worked on. Its connection waits again when this is dropped.
pub(super) struct Working(Arc<Place>);

impl Drop for Working {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(state.stage, Stage::Working) {
            state.stage = Stage::Waiting(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_lost(taken: &Taken) -> bool {
        taken.place.closed.is_cancelled()
    }

    #[test]
    fn the_connection_that_waited_longest_loses_its_place_and_a_trusted_one_last() {
        let places = Arc::new(Places::default());
        let taken: Vec<_> = (0..RESERVE + 3).map(|_| places.take(3).unwrap().0).collect();
        assert!(!taken.iter().any(is_lost));
        taken[0].place.trust();
        let working = taken[1].place.work().unwrap();
        let (newer, had_to) = places.take(3).unwrap();
        assert!(had_to && is_lost(&taken[2]) && taken[2].place.work().is_none());
        drop(working);
        let others: Vec<_> = (0..RESERVE + 1).map(|_| places.take(3).unwrap().0).collect();
        let lost = taken.iter().map(is_lost).collect::<Vec<_>>();
        // The one whose request ended last has waited shortest.
        assert!(!lost[0] && !lost[1] && lost[2..].iter().all(|lost| *lost), "{lost:?}");
        assert!(is_lost(&newer) && !is_lost(&others[0]));
        assert_eq!(places.open.lock().unwrap().places.len(), RESERVE + 3);
        drop((taken, newer, others));
        assert!(places.open.lock().unwrap().places.is_empty());
    }

    #[test]
    fn without_a_connection_that_waits_a_new_one_gets_no_place() {
        let places = Arc::new(Places::default());
        let taken: Vec<_> = (0..RESERVE).map(|_| places.take(0).unwrap().0).collect();
        let working: Vec<_> = taken.iter().map(|taken| taken.place.work().unwrap()).collect();
        assert!(places.take(0).is_none());
        drop(working);
        assert!(places.take(0).is_some());
    }

    #[tokio::test]
    async fn a_connection_that_waits_too_long_loses_its_place_and_a_request_does_not() {
        let places = Arc::new(Places::default());
        let (taken, _) = places.take(1).unwrap();
        let working = taken.place.work().unwrap();
        let lost = taken.place.lost(Duration::from_millis(20));
        tokio::pin!(lost);
        assert!(tokio::time::timeout(Duration::from_millis(100), &mut lost).await.is_err());
        drop(working);
        lost.await;
    }
}
