//! The gaps that a set of states may have.
//!
//! A set has a *gap* if a job leaves the set and enters it again on one of the usual ways below. Its
//! claim is given up and taken back later, unless another job took the key in between. The job then
//! goes on without a claim. The library allows this, but the author of the set rarely wants it.
//!
//! ```text
//! pending ───┐                         ┌─> completed
//! scheduled ─┼─> available ─> running ─┼─> discarded
//! retryable ─┘       ^           │     └─> cancelled  (from every state above, too)
//!                    └───────────┴─> retryable (error, rescue), scheduled (snooze), available (given back)
//! ```

use crate::scope::UniqueScope;
use crate::states::{JobState, StateSet};

impl StateSet {
    /// The states outside the set that a job passes through between two states of the set. Empty: there is no gap.
    ///
    /// Two kinds of set have no gap, because their end is clear: waiting states with `available` (the
    /// claim ends when the job starts), and only `scheduled` and `pending` (the claim ends when the job is
    /// due).
    #[must_use]
    pub fn gap(self) -> Self {
        const UNTIL_DUE: StateSet = StateSet::of(&[JobState::Pending, JobState::Scheduled]);

        let until_start = UniqueScope::Queued.states().is_superset(self) && self.contains(JobState::Available);
        if until_start || UNTIL_DUE.is_superset(self) {
            return Self::EMPTY;
        }
        let outside = self.complement();
        let after = |states: Self| states.iter().map(followers).fold(Self::EMPTY, Self::union);
        let left = grown(after(self).intersection(outside), |left| after(left).intersection(outside));
        // The gap consists of the reachable states outside the set that lead back into it.
        grown(Self::EMPTY, |back| {
            left.iter().filter(|state| !followers(*state).is_disjoint(self.union(back))).collect()
        })
    }
}

/// The states that follow one without an operator's retry.
const fn followers(state: JobState) -> StateSet {
    use JobState::{Available, Cancelled, Completed, Discarded, Pending, Retryable, Running, Scheduled};

    match state {
        Pending | Scheduled | Retryable => StateSet::of(&[Available, Cancelled]),
        Available => StateSet::of(&[Running, Cancelled]),
        Running => StateSet::of(&[Available, Cancelled, Completed, Discarded, Retryable, Scheduled]),
        Cancelled | Completed | Discarded => StateSet::EMPTY,
    }
}

/// The set with all that `further` finds from it, until it finds no more.
fn grown(mut set: StateSet, further: impl Fn(StateSet) -> StateSet) -> StateSet {
    loop {
        let next = set.union(further(set));
        if next == set {
            return set;
        }
        set = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::states::JobState::{Available, Cancelled, Completed, Discarded, Retryable, Running, Scheduled};

    fn gap(states: &[JobState]) -> String {
        StateSet::of(states).gap().to_string()
    }

    #[test]
    fn named_scopes_have_no_gap() {
        for scope in UniqueScope::ALL {
            assert!(scope.states().gap().is_empty(), "{scope}");
        }
    }

    #[test]
    fn claims_until_due_or_until_start_have_no_gap() {
        for states in [&[Scheduled][..], &[Available], &[Available, Scheduled], &[Available, Scheduled, Retryable]] {
            assert_eq!(gap(states), "", "{states:?}");
        }
    }

    #[test]
    fn a_claim_that_is_given_up_and_taken_back_is_a_gap() {
        assert_eq!(gap(&[Available, Running]), "scheduled, retryable");
        assert_eq!(gap(&[Available, Running, Scheduled]), "retryable");
        assert_eq!(gap(&[Available, Scheduled, Retryable, Completed]), "running");
        assert_eq!(gap(&[Scheduled, Running, Retryable]), "available");
        assert_eq!(gap(&[Scheduled, Retryable]), "available, running");
        assert_eq!(gap(&[Running]), "scheduled, available, retryable");
    }

    #[test]
    fn pending_and_final_states_are_no_gap() {
        assert_eq!(gap(&[Available, Scheduled, Retryable, Running]), "");
        assert_eq!(gap(&[Available, Scheduled, Retryable, Running, Discarded]), "");
        assert_eq!(gap(&[Completed, Cancelled]), "");
    }
}
