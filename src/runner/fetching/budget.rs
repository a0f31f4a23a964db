//! A budget of slots that the runners of several places share.
//!
//! Each place may always run one job: its floor. All further slots are borrowed, one for each job, and given back at its end.
//! A place that this process does not work now, because others do or it is down, has its share closed. Its floor can be
//! borrowed.
//! Each place is *sated*, *hungry* (it has jobs, or would look for jobs, and no slot is free), or *woken* (a slot was given
//! back for it).
//!
//! Invariants:
//! - A place with as many jobs as its floor waits for no other place.
//! - While a place is woken, a place that runs more jobs borrows nothing. So one with many jobs leaves slots to the others.
//! - A place is woken for [`WOKEN`] at most: one whose database does not answer holds up the others no longer than that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// How long a slot is kept for a place that was woken.
const WOKEN: Duration = Duration::from_millis(50);

/// The slots of a process.
#[derive(Debug)]
pub(crate) struct Budget {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    slots: usize,
    accounts: Vec<Account>,
}

#[derive(Debug)]
struct Account {
    /// Whether a slot is set aside as its floor.
    is_open: bool,
    running: usize,
    /// The slots that the fetch being prepared counts on already.
    asked: usize,
    hunger: Hunger,
    /// Wakes the producer of the place.
    wake: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Hunger {
    Sated,
    Hungry,
    Woken(Instant),
}

/// The account of one place.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    place: usize,
}

impl Budget {
    /// The shares of `places` places in a budget of `slots` slots. Each share is open. With fewer slots than places each share
    /// has its floor all the same.
    pub(crate) fn shares(slots: usize, places: usize) -> Vec<Share> {
        let account = || Account { is_open: true, running: 0, asked: 0, hunger: Hunger::Sated, wake: Arc::default() };
        let accounts = std::iter::repeat_with(account).take(places).collect();
        let budget = Arc::new(Self { state: Mutex::new(State { slots, accounts }) });
        (0..places).map(|place| Share { budget: Arc::clone(&budget), place }).collect()
    }
}

impl Share {
    /// Sets the floor aside: the place is worked.
    pub(crate) fn open(&self) {
        self.state().accounts[self.place].is_open = true;
    }

    /// Leaves the floor to other places: the place is not worked.
    pub(crate) fn close(&self) {
        self.freeing(|account| account.is_open = false);
    }

    /// The signal that wakes the producer of the place.
    pub(in crate::runner) fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.state().accounts[self.place].wake)
    }

    /// Takes a slot for a job.
    pub(in crate::runner) fn take(&self) -> bool {
        let mut state = self.state();
        if state.room(self.place, Instant::now()) == 0 {
            state.accounts[self.place].starve();
            return false;
        }
        let account = &mut state.accounts[self.place];
        account.running += 1;
        account.hunger = Hunger::Sated;
        true
    }

    /// Gives the slot of a job back.
    pub(in crate::runner) fn release(&self) {
        self.freeing(|account| account.running -= 1);
    }

    /// Changes the account, and wakes another place if that frees a slot.
    fn freeing(&self, change: impl FnOnce(&mut Account)) {
        let mut state = self.state();
        let before = state.free();
        change(&mut state.accounts[self.place]);
        if state.free() > before {
            self.wake_another(&mut state);
        }
    }

    /// The next fetch counts on no slot yet.
    pub(in crate::runner) fn begin_fetch(&self) {
        self.state().accounts[self.place].asked = 0;
    }

    /// How many of these slots a fetch may count on.
    pub(in crate::runner) fn ask(&self, wanted: usize) -> usize {
        let mut state = self.state();
        let room = state.room(self.place, Instant::now());
        let account = &mut state.accounts[self.place];
        let given = room.saturating_sub(account.asked).min(wanted);
        account.asked += given;
        if room == 0 && wanted > 0 {
            account.starve();
        }
        given
    }

    /// The place has no jobs for more slots.
    pub(in crate::runner) fn sate(&self) {
        let mut state = self.state();
        if std::mem::replace(&mut state.accounts[self.place].hunger, Hunger::Sated) != Hunger::Sated && state.free() > 0
        {
            self.wake_another(&mut state);
        }
    }

    /// Wakes the hungry place with the fewest jobs.
    fn wake_another(&self, state: &mut State) {
        let others = state.accounts.iter().enumerate();
        let hungry = others.filter(|(place, account)| *place != self.place && account.hunger == Hunger::Hungry);
        let Some(place) = hungry.min_by_key(|(_, account)| account.running).map(|(place, _)| place) else { return };
        let woken = Hunger::Woken(Instant::now());
        let account = &mut state.accounts[place];
        account.hunger = woken;
        account.wake.notify_one();
        let share = Self { budget: Arc::clone(&self.budget), place };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // If the woken place does not come, the slot goes to the next place.
            runtime.spawn(async move {
                tokio::time::sleep(WOKEN).await;
                // It may have come, and be hungry again.
                let is_same = share.state().accounts[share.place].hunger == woken;
                if is_same {
                    share.sate();
                }
            });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.budget.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The slots that no place has borrowed.
    fn free(&self) -> usize {
        self.slots.saturating_sub(self.accounts.iter().map(Account::used).sum())
    }

    /// How many jobs more a place may start now.
    fn room(&self, place: usize, now: Instant) -> usize {
        let own = &self.accounts[place];
        let must_yield = self.accounts.iter().any(|other| {
            matches!(other.hunger, Hunger::Woken(at) if now.saturating_duration_since(at) < WOKEN)
                && other.running < own.running
        });
        let floor = usize::from(own.running == 0);
        // A place whose share is closed takes its floor from the slots that are free.
        let is_floor_free = own.used() < own.running + floor;
        floor + if must_yield { 0 } else { self.free().saturating_sub(usize::from(is_floor_free)) }
    }
}

impl Account {
    /// Its jobs, and its floor while that is set aside.
    fn used(&self) -> usize {
        self.running.max(usize::from(self.is_open))
    }

    fn starve(&mut self) {
        if self.hunger == Hunger::Sated {
            self.hunger = Hunger::Hungry;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(share: &Share) -> usize {
        std::iter::repeat_with(|| share.take()).take_while(|taken| *taken).count()
    }

    #[test]
    fn each_place_has_a_floor_of_one_and_borrows_the_rest() {
        let shares = Budget::shares(5, 3);
        assert_eq!(takes(&shares[0]), 3);
        assert_eq!((takes(&shares[1]), takes(&shares[2])), (1, 1));
        let few = Budget::shares(1, 3);
        assert_eq!(few.iter().map(takes).collect::<Vec<_>>(), [1, 1, 1]);
        few[0].release();
        assert!(!few[1].take() && few[0].take());
    }

    #[test]
    fn a_slot_that_is_given_back_goes_to_the_hungry_place_with_fewer_jobs() {
        let shares = Budget::shares(6, 2);
        assert_eq!((takes(&shares[0]), takes(&shares[1])), (5, 1));
        shares[0].release();
        // The other place was hungry, and comes first.
        assert!(!shares[0].take());
        assert!(shares[1].take());
        shares[0].release();
        assert!(shares[0].take(), "two and three: none is woken for less");
        // A woken place without jobs leaves its slot.
        assert!(!shares[1].take());
        shares[0].release();
        shares[1].sate();
        assert!(shares[0].take());
    }

    #[test]
    fn a_place_that_was_woken_and_does_not_come_is_waited_for_no_longer_than_its_time() {
        let shares = Budget::shares(4, 2);
        assert_eq!((takes(&shares[0]), takes(&shares[1])), (3, 1));
        shares[0].release();
        let state = shares[0].state();
        let now = Instant::now();
        assert_eq!(state.room(0, now), 0);
        assert_eq!(state.room(0, now + WOKEN), 1);
    }

    #[test]
    fn a_place_that_is_not_worked_leaves_its_floor_to_the_others() {
        let shares = Budget::shares(4, 2);
        assert_eq!(takes(&shares[0]), 3);
        shares[1].close();
        assert_eq!(takes(&shares[0]), 1);
        // It comes back at once, and the others give up a slot when a job ends.
        shares[1].open();
        assert_eq!(takes(&shares[1]), 1);
        shares[0].release();
        assert!(!shares[0].take());
        shares[0].release();
        assert!(shares[1].take());
    }

    #[test]
    fn a_fetch_counts_on_no_slot_twice() {
        let shares = Budget::shares(4, 2);
        shares[0].begin_fetch();
        assert_eq!((shares[0].ask(2), shares[0].ask(9), shares[0].ask(1)), (2, 1, 0));
        shares[0].begin_fetch();
        assert_eq!(shares[0].ask(9), 3);
    }
}
