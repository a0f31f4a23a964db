//! Sets of states in which a job claims its key, and the gaps they may have.
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

/// A state of a job. The variants are named as in the library's `JobState`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum State {
    Available,
    Cancelled,
    Completed,
    Discarded,
    Pending,
    Retryable,
    Running,
    Scheduled,
}

use State::{Available, Cancelled, Completed, Discarded, Pending, Retryable, Running, Scheduled};

impl State {
    pub(crate) const ALL: [(&str, Self); 8] = [
        ("available", Available),
        ("cancelled", Cancelled),
        ("completed", Completed),
        ("discarded", Discarded),
        ("pending", Pending),
        ("retryable", Retryable),
        ("running", Running),
        ("scheduled", Scheduled),
    ];

    /// The state that another queue calls by this name.
    pub(crate) fn known_elsewhere_as(word: &str) -> Option<&'static str> {
        Some(match word {
            "active" | "in_flight" | "reserved" | "executing" => "running",
            "ready" | "enqueued" => "available",
            "retries" => "retryable",
            "dead" => "discarded",
            "deleted" | "canceled" => "cancelled",
            _ => return None,
        })
    }

    fn followers(self) -> States {
        match self {
            Pending | Scheduled | Retryable => States::of(&[Available, Cancelled]),
            Available => States::of(&[Running, Cancelled]),
            Running => States::of(&[Available, Cancelled, Completed, Discarded, Retryable, Scheduled]),
            // An operator can retry a final job, but that is not a usual way.
            Cancelled | Completed | Discarded => States::NONE,
        }
    }
}

/// A set of states.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct States(u8);

impl States {
    pub(crate) const NONE: Self = Self(0);
    /// The states of jobs that have yet to start.
    pub(crate) const WAITING: Self = Self::of(&[Available, Pending, Retryable, Scheduled]);

    pub(crate) const fn of(states: &[State]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < states.len() {
            bits |= 1 << states[index] as u8;
            index += 1;
        }
        Self(bits)
    }

    pub(crate) fn contains(self, state: State) -> bool {
        self.meets(Self::of(&[state]))
    }

    pub(crate) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = State> {
        State::ALL.into_iter().map(|(_, state)| state).filter(move |state| self.contains(*state))
    }

    /// The names of the states, in alphabetical order.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        State::ALL.into_iter().filter(move |(_, state)| self.contains(*state)).map(|(name, _)| name)
    }

    /// The states outside the set that a job passes through between two states of the set.
    ///
    /// Two kinds of set have no gap, because their end is clear: waiting states with `available` (the
    /// claim ends when the job starts), and only `scheduled` and `pending` (the claim ends when the job is
    /// due).
    pub(crate) fn gap(self) -> Self {
        let until_start = self.is_within(Self::WAITING) && self.contains(Available);
        let until_due = self.is_within(Self::of(&[Pending, Scheduled]));
        if until_start || until_due {
            return Self::NONE;
        }
        let after = |states: Self| states.iter().fold(Self::NONE, |all, state| all.with(state.followers()));
        let mut left = after(self).without(self);
        loop {
            let further = left.with(after(left).without(self));
            if further == left {
                break;
            }
            left = further;
        }
        // The gap consists of the reachable states outside the set that lead back into it.
        let mut back = Self::NONE;
        loop {
            let further = left
                .iter()
                .filter(|state| state.followers().meets(self.with(back)))
                .fold(back, |all, state| all.with(Self::of(&[state])));
            if further == back {
                return back;
            }
            back = further;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(states: &[State]) -> Vec<&'static str> {
        States::of(states).gap().names().collect()
    }

    #[test]
    fn named_scopes_have_no_gap() {
        let queued = [Available, Pending, Scheduled, Retryable];
        let active = [&queued[..], &[Running]].concat();
        let completed = [&active[..], &[Completed]].concat();
        let exists = State::ALL.map(|(_, state)| state);
        for scope in [&queued[..], &active, &completed, &exists] {
            assert!(gap(scope).is_empty(), "{scope:?}");
        }
    }

    #[test]
    fn claims_until_due_or_until_start_have_no_gap() {
        assert!(gap(&[Scheduled]).is_empty());
        assert!(gap(&[Available]).is_empty());
        assert!(gap(&[Available, Scheduled]).is_empty());
        assert!(gap(&[Available, Scheduled, Retryable]).is_empty());
    }

    #[test]
    fn a_claim_that_is_given_up_and_taken_back_is_a_gap() {
        assert_eq!(gap(&[Available, Running]), ["retryable", "scheduled"]);
        assert_eq!(gap(&[Available, Running, Scheduled]), ["retryable"]);
        assert_eq!(gap(&[Available, Scheduled, Retryable, Completed]), ["running"]);
        assert_eq!(gap(&[Scheduled, Running, Retryable]), ["available"]);
        assert_eq!(gap(&[Scheduled, Retryable]), ["available", "running"]);
        assert_eq!(gap(&[Running]), ["available", "retryable", "scheduled"]);
    }

    #[test]
    fn pending_and_final_states_are_no_gap() {
        assert!(gap(&[Available, Scheduled, Retryable, Running]).is_empty());
        assert!(gap(&[Available, Scheduled, Retryable, Running, Discarded]).is_empty());
        assert!(gap(&[Completed, Cancelled]).is_empty());
    }
}
