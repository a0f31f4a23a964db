//! What the next jobs with keys probably meet, by what the last ones met.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// After so many new jobs in a row the next keys are taken to be free; and four times as many as are sent, since what
/// turns out wrong is sent twice.
const FREE: usize = 64;

/// All that were sent last were duplicates.
const HELD: i32 = -1;

/// So many statements must pass before the next look after one that found nothing, as each does while an audit is on.
const VAIN: u32 = 100;

/// How many were new since the last duplicate. A guess: it decides which statement is tried first, never what an
/// insert comes to.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    new: AtomicI32,
    /// How many statements must pass before a look is worth another try.
    no_look: AtomicU32,
}

/// Which keys are to be expected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Keys {
    Free,
    Held,
    Either,
}

impl Outlook {
    /// Those of the next statement.
    pub(super) fn keys(&self, sent: usize) -> Keys {
        if self.are_held() {
            Keys::Held
        } else if self.are_free(sent) {
            Keys::Free
        } else {
            Keys::Either
        }
    }

    /// Whether those of the next statement are probably all held, so that a look finds all there is to say.
    pub(super) fn are_held(&self) -> bool {
        self.new.load(Ordering::Relaxed) == HELD && self.no_look.load(Ordering::Relaxed) == 0
    }

    /// Whether those of the next statement are probably all free.
    pub(super) fn are_free(&self, sent: usize) -> bool {
        let new = self.new.load(Ordering::Relaxed);
        usize::try_from(new).is_ok_and(|new| new >= FREE.max(4 * sent))
    }

    /// Takes note of a statement: how many jobs with keys it had, and how many of them met somebody.
    pub(super) fn note(&self, all: usize, met: usize) {
        if all == 0 {
            return;
        }
        let new = if met == 0 {
            self.new.load(Ordering::Relaxed).max(0).saturating_add(i32::try_from(all).unwrap_or(i32::MAX))
        } else if met == all {
            HELD
        } else {
            0
        };
        self.new.store(new, Ordering::Relaxed);
        let no_look = self.no_look.load(Ordering::Relaxed);
        self.no_look.store(no_look.saturating_sub(1), Ordering::Relaxed);
    }

    /// Takes note of jobs with keys that were tried as new: they are in, or not, for whatever reason.
    pub(super) fn tried(&self, all: usize, are_in: bool) {
        if are_in {
            self.note(all, 0);
        } else {
            self.new.store(0, Ordering::Relaxed);
        }
    }

    /// Takes note of a look that found nobody, before the statement that is sent after it.
    pub(super) fn looked_in_vain(&self) {
        self.no_look.store(VAIN, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_to_be_free_after_many_new_jobs_and_never_after_a_duplicate() {
        let outlook = Outlook::default();
        assert_eq!(outlook.keys(1), Keys::Either);
        outlook.note(63, 0);
        assert_eq!(outlook.keys(1), Keys::Either);
        outlook.note(1, 0);
        assert_eq!(outlook.keys(1), Keys::Free);
        assert_eq!(outlook.keys(17), Keys::Either);
        outlook.note(usize::MAX, 0);
        assert_eq!(outlook.keys(500), Keys::Free);
        outlook.note(10, 1);
        assert_eq!(outlook.keys(1), Keys::Either);
        outlook.note(10, 10);
        assert_eq!(outlook.keys(1), Keys::Held);
        outlook.note(10, 9);
        assert_eq!(outlook.keys(1), Keys::Either);
        outlook.tried(64, true);
        assert_eq!(outlook.keys(1), Keys::Free);
        // Also of one alone: it may have been somebody's who has not committed.
        outlook.tried(1, false);
        assert_eq!(outlook.keys(1), Keys::Either);
    }

    #[test]
    fn a_look_in_vain_is_not_repeated_soon() {
        let outlook = Outlook::default();
        outlook.note(10, 10);
        outlook.looked_in_vain();
        for n in 0..VAIN as usize {
            assert_eq!(outlook.keys(1), Keys::Either);
            // Whatever becomes of others.
            outlook.note(10, 10 * (n % 2));
        }
        assert_eq!(outlook.keys(1), Keys::Held);
    }
}
