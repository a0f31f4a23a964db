//! The slots of connections. A new connection always gets one: when all are taken, the connection that has waited longest
//! for its next request loses its slot.
//!
//! ```text
//! waiting (no request, a part of one, or an answer that the client does not read) ─▶ working ─▶ waiting
//!    └─▶ closed, for a new connection
//! ```
//!
//! - Connections that never showed right credentials lose their slots first. So clients without a password displace each
//!   other, however many they are, and a probe that sends its request at once is answered.
//! - A request that is worked on is never interrupted. At most as many requests as slots are worked on, and there are
//!   `RESERVE` slots more than that, so a connection that can lose its slot is always found.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Slots beyond those of the limit, for probes while requests are worked on in all of the others.
const RESERVE: usize = 16;

/// All slots.
#[derive(Default)]
pub(super) struct Slots {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    slots: HashMap<u64, Arc<Slot>>,
}

/// The slot of one connection.
pub(super) struct Slot {
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

/// Gives the slot up when it is dropped.
pub(super) struct Taken {
    slots: Arc<Slots>,
    number: u64,
    pub(super) slot: Arc<Slot>,
}

impl Slots {
    /// Takes a slot. Returns whether another connection lost it. `None`: no slot can be had.
    pub(super) fn take(self: &Arc<Self>, most: usize) -> Option<(Taken, bool)> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = open.slots.len() >= most + RESERVE;
        if is_full {
            let waiting = open.slots.iter().filter_map(|(number, slot)| Some((slot.waits_since()?, *number)));
            let (_, number) = waiting.min()?;
            // A request that began since then keeps its slot, and the new connection gets none.
            open.slots.get(&number).filter(|slot| slot.close())?;
            open.slots.remove(&number);
        }
        let state = Mutex::new(State { stage: Stage::Waiting(Instant::now()), is_trusted: false });
        let slot = Arc::new(Slot { state, closed: CancellationToken::new() });
        let number = open.next;
        open.next += 1;
        open.slots.insert(number, Arc::clone(&slot));
        Some((Taken { slots: Arc::clone(self), number, slot }, is_full))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.slots.open.lock().unwrap_or_else(PoisonError::into_inner).slots.remove(&self.number);
    }
}

impl Slot {
    /// Begins a request. `None`: the connection has lost its slot.
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

    /// Completes when the connection has lost its slot, or has waited this long.
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

    /// The order in which connections lose their slots. `None`: it works on a request.
    fn waits_since(&self) -> Option<(bool, Instant)> {
        let state = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.stage {
            Stage::Waiting(since) => Some((state.is_trusted, since)),
            Stage::Working | Stage::Closed => None,
        }
    }

    /// Takes the slot away from a connection that waits. Returns whether it did.
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
pub(super) struct Working(Arc<Slot>);

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
        taken.slot.closed.is_cancelled()
    }

    #[test]
    fn the_connection_that_waited_longest_loses_its_place_and_a_trusted_one_last() {
        let slots = Arc::new(Slots::default());
        let taken: Vec<_> = (0..RESERVE + 3).map(|_| slots.take(3).unwrap().0).collect();
        assert!(!taken.iter().any(is_lost));
        taken[0].slot.trust();
        let working = taken[1].slot.work().unwrap();
        let (newer, had_to) = slots.take(3).unwrap();
        assert!(had_to && is_lost(&taken[2]) && taken[2].slot.work().is_none());
        drop(working);
        let others: Vec<_> = (0..RESERVE + 1).map(|_| slots.take(3).unwrap().0).collect();
        let lost = taken.iter().map(is_lost).collect::<Vec<_>>();
        // The one whose request ended last has waited shortest.
        assert!(!lost[0] && !lost[1] && lost[2..].iter().all(|lost| *lost), "{lost:?}");
        assert!(is_lost(&newer) && !is_lost(&others[0]));
        assert_eq!(slots.open.lock().unwrap().slots.len(), RESERVE + 3);
        drop((taken, newer, others));
        assert!(slots.open.lock().unwrap().slots.is_empty());
    }

    #[test]
    fn without_a_connection_that_waits_a_new_one_gets_no_place() {
        let slots = Arc::new(Slots::default());
        let taken: Vec<_> = (0..RESERVE).map(|_| slots.take(0).unwrap().0).collect();
        let working: Vec<_> = taken.iter().map(|taken| taken.slot.work().unwrap()).collect();
        assert!(slots.take(0).is_none());
        drop(working);
        assert!(slots.take(0).is_some());
    }

    #[tokio::test]
    async fn a_connection_that_waits_too_long_loses_its_place_and_a_request_does_not() {
        let slots = Arc::new(Slots::default());
        let (taken, _) = slots.take(1).unwrap();
        let working = taken.slot.work().unwrap();
        let lost = taken.slot.lost(Duration::from_millis(20));
        tokio::pin!(lost);
        assert!(tokio::time::timeout(Duration::from_millis(100), &mut lost).await.is_err());
        drop(working);
        lost.await;
    }
}
