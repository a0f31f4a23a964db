//! What the next inserts probably meet, by what the last ones met.

use std::sync::atomic::{AtomicI32, Ordering};

/// After so many new jobs in a row the next keys are taken to be free.
const FREE: i32 = 64;

/// All that were sent last were duplicates.
const HELD: i32 = -1;

/// How many were new since the last duplicate. A guess: it decides which statement is tried first, never what an
/// insert comes to.
#[derive(Debug, Default)]
pub(super) struct Outlook(AtomicI32);

/// Which keys are to be expected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Keys {
    Free,
    Held,
    Either,
}

impl Outlook {
    /// Those of the next flight. That all are held counts for one flight, until it says so again.
    pub(super) fn keys(&self) -> Keys {
        let new = self.0.load(Ordering::Relaxed);
        if new == HELD {
            self.0.store(0, Ordering::Relaxed);
            Keys::Held
        } else if new >= FREE {
            Keys::Free
        } else {
            Keys::Either
        }
    }

    /// Takes note of a flight: how many it had, and how many of them met somebody.
    pub(super) fn note(&self, all: usize, met: usize) {
        let new = if met == 0 {
            let all = i32::try_from(all).unwrap_or(FREE);
            self.0.load(Ordering::Relaxed).clamp(0, FREE).saturating_add(all)
        } else if met == all {
            HELD
        } else {
            0
        };
        self.0.store(new, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_to_be_free_after_many_new_jobs_and_never_after_a_duplicate() {
        let outlook = Outlook::default();
        assert_eq!(outlook.keys(), Keys::Either);
        outlook.note(63, 0);
        assert_eq!(outlook.keys(), Keys::Either);
        outlook.note(1, 0);
        assert_eq!(outlook.keys(), Keys::Free);
        outlook.note(500, 0);
        assert_eq!(outlook.keys(), Keys::Free);
        outlook.note(10, 1);
        assert_eq!(outlook.keys(), Keys::Either);
        outlook.note(10, 10);
        assert_eq!(outlook.keys(), Keys::Held);
        assert_eq!(outlook.keys(), Keys::Either, "for one flight only");
    }
}
