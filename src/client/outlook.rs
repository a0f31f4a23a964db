//! What the next jobs with keys probably meet, by what the last ones met.

use std::sync::atomic::{AtomicI32, Ordering};

/// After so many new jobs in a row the next keys are taken to be free; and four times as many as are sent, since what
/// turns out wrong is sent twice.
const FREE: usize = 64;

/// All that were sent last were duplicates.
const HELD: i32 = -1;

/// So many statements of nothing but duplicates must pass before another look after one in vain: while an audit is on,
/// looks find nothing.
const VAIN: i32 = 100;

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
        self.0.load(Ordering::Relaxed) == HELD
    }

    /// Whether those of the next statement are probably all free.
    pub(super) fn are_free(&self, sent: usize) -> bool {
        let new = self.0.load(Ordering::Relaxed);
        usize::try_from(new).is_ok_and(|new| new >= FREE.max(4 * sent))
    }

    /// Takes note of a statement: how many jobs with keys it had, and how many of them met somebody.
    pub(super) fn note(&self, all: usize, met: usize) {
        if all == 0 {
            return;
        }
        let before = self.0.load(Ordering::Relaxed);
        let new = if met == 0 {
            before.max(0).saturating_add(i32::try_from(all).unwrap_or(i32::MAX))
        } else if met == all {
            if before < HELD { before + 1 } else { HELD }
        } else {
            0
        };
        self.0.store(new, Ordering::Relaxed);
    }

    /// Takes note of a look that did not find all, before the statement that is sent after it.
    pub(super) fn looked_in_vain(&self) {
        self.0.store(HELD - VAIN, Ordering::Relaxed);
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
    }

    #[test]
    fn a_look_in_vain_is_not_repeated_soon() {
        let outlook = Outlook::default();
        outlook.note(10, 10);
        outlook.looked_in_vain();
        for _ in 0..VAIN {
            assert_eq!(outlook.keys(1), Keys::Either);
            outlook.note(10, 10);
        }
        assert_eq!(outlook.keys(1), Keys::Held);
    }
}
