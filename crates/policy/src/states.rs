//! The eight states of a job, and the states in which it claims its key.

use std::fmt;

/// A set of job states: those in which a job claims its key.
///
/// On the row it is a bitmask, `unique_states`, whose bit *i* is the *i*-th state in alphabetical
/// order: `available` 1, `cancelled` 2, `completed` 4, `discarded` 8, `pending` 16, `retryable`
/// 32, `running` 64, `scheduled` 128. The numbers are part of the table contract and never change.
///
/// Any set may be built, the empty one too; a policy refuses the empty one.
///
/// ```
/// use uniqueue_policy::{JobState, StateSet, UniqueScope};
///
/// let states = StateSet::from(UniqueScope::Queued).with(JobState::Running);
/// assert_eq!(states, UniqueScope::Active.states());
/// assert_eq!(states.to_string(), "pending, scheduled, available, running, retryable");
/// ```
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StateSet(u8);

impl StateSet {
    /// No state.
    pub const EMPTY: StateSet = StateSet(0);

    /// All eight states.
    pub const ALL: StateSet = StateSet(u8::MAX);

    /// Every state except `completed`: the states of Faktory's lock "until success". It outlives a job
    /// that is discarded or cancelled.
    pub const ALL_BUT_COMPLETED: StateSet = StateSet::ALL.without(JobState::Completed);

    /// The set of these states.
    #[must_use]
    pub const fn of(states: &[JobState]) -> Self {
        let mut set = Self::EMPTY;
        let mut index = 0;
        while index < states.len() {
            set = set.with(states[index]);
            index += 1;
        }
        set
    }

    /// This set and one state more.
    #[must_use]
    pub const fn with(self, state: JobState) -> Self {
        Self(self.0 | bit(state))
    }

    /// This set less one state.
    #[must_use]
    pub const fn without(self, state: JobState) -> Self {
        Self(self.0 & !bit(state))
    }

    /// Whether a job in this state claims its key.
    #[must_use]
    pub const fn contains(self, state: JobState) -> bool {
        self.0 & bit(state) != 0
    }

    /// The states in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The states that are not in this set.
    #[must_use]
    pub const fn complement(self) -> Self {
        Self(!self.0)
    }

    /// Whether the sets have no state in common.
    #[must_use]
    pub const fn is_disjoint(self, other: Self) -> bool {
        self.0 & other.0 == 0
    }

    /// Whether the set holds no state.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many states the set holds.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The states, in the order of a job's life.
    pub fn iter(self) -> impl Iterator<Item = JobState> + Clone {
        JobState::ALL.into_iter().filter(move |state| self.contains(*state))
    }

    /// The gap of the set: the states outside it that a job passes through between two states of the set, without an
    /// operator. Its claim is given up there and taken back later, unless another job took the key in between. The job then
    /// goes on without a claim. The library allows this, but the author of the set rarely wants it.
    ///
    /// ```text
    /// pending ───┐                         ┌─> completed
    /// scheduled ─┼─> available ─> running ─┼─> discarded
    /// retryable ─┘       ^           │     └─> cancelled  (from every state above, too)
    ///                    └───────────┴─> retryable (error, rescue), scheduled (snooze), available (given back)
    /// ```
    ///
    /// Two kinds of set have no gap, because their end is clear: waiting states with `available` (the
    /// claim ends when the job starts), and only `scheduled` and `pending` (the claim ends when the job is
    /// due).
    #[must_use]
    pub const fn gap(self) -> Self {
        const UNTIL_DUE: StateSet = StateSet::of(&[JobState::Pending, JobState::Scheduled]);
        const UNTIL_START: StateSet = UNTIL_DUE.with(JobState::Available).with(JobState::Retryable);
        // A job comes from each of these states to each other one, and from pending to all of them.
        const ROUND: StateSet = UNTIL_START.without(JobState::Pending).with(JobState::Running);
        const FINAL: StateSet = ROUND.with(JobState::Pending).complement();

        let ends_at_start = self.is_disjoint(UNTIL_START.complement()) && self.contains(JobState::Available);
        let comes_back = !self.is_disjoint(ROUND) || self.contains(JobState::Pending) && !self.is_disjoint(FINAL);
        if ends_at_start || self.is_disjoint(UNTIL_DUE.complement()) || !comes_back {
            return Self::EMPTY;
        }
        ROUND.intersection(self.complement())
    }

    /// The bitmask as the row stores it, a `smallint`.
    #[must_use]
    pub const fn bits(self) -> i16 {
        self.0 as i16
    }

    /// The set of a stored bitmask; `None` when a bit is set that means no state.
    #[must_use]
    pub const fn from_bits(bits: i16) -> Option<Self> {
        if bits >= 0 && bits <= u8::MAX as i16 { Some(Self(bits as u8)) } else { None }
    }
}

const fn bit(state: JobState) -> u8 {
    match state {
        JobState::Available => 1,
        JobState::Cancelled => 2,
        JobState::Completed => 4,
        JobState::Discarded => 8,
        JobState::Pending => 16,
        JobState::Retryable => 32,
        JobState::Running => 64,
        JobState::Scheduled => 128,
    }
}

impl FromIterator<JobState> for StateSet {
    fn from_iter<I: IntoIterator<Item = JobState>>(states: I) -> Self {
        states.into_iter().fold(Self::EMPTY, StateSet::with)
    }
}

impl From<JobState> for StateSet {
    fn from(state: JobState) -> Self {
        Self::EMPTY.with(state)
    }
}

impl<const N: usize> From<[JobState; N]> for StateSet {
    fn from(states: [JobState; N]) -> Self {
        Self::of(&states)
    }
}

/// The states in words, as the claims view shows them: `pending, available`; nothing when empty.
impl fmt::Display for StateSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(JobState::as_str).collect();
        f.pad(&names.join(", "))
    }
}

impl fmt::Debug for StateSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// A list of state names, in the order of a job's life.
#[cfg(feature = "serde")]
impl serde::Serialize for StateSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for StateSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <Vec<JobState> as serde::Deserialize>::deserialize(deserializer).map(Self::from_iter)
    }
}

words! {
    member "state";

    /// The state of a job.
    ///
    /// ```text
    /// pending ─▶ available ─▶ running ─▶ completed
    ///    scheduled ─▲   ▲         ├────▶ cancelled
    ///                retryable ◀──┴────▶ discarded
    /// ```
    ///
    /// `Completed`, `Cancelled` and `Discarded` are *final*: a job leaves them only
    /// when an operator retries it or retention deletes it.
    ///
    /// `ALL` has them in the order of a job's life.
    #[derive(Ord, PartialOrd)]
    pub enum JobState {
        /// Held back until it is released.
        Pending = "pending",
        /// Waiting for its `scheduled_at`.
        Scheduled = "scheduled",
        /// Waiting for a free worker.
        Available = "available",
        /// Run by a worker.
        Running = "running",
        /// Failed, and waiting for its next attempt at `scheduled_at`.
        Retryable = "retryable",
        /// Its worker succeeded. Final.
        Completed = "completed",
        /// Stopped by an operator, by its worker or by a job that replaced it. Final.
        Cancelled = "cancelled",
        /// Out of attempts, or discarded by its worker or its policy. Final.
        Discarded = "discarded",
    }
}

impl JobState {
    /// Whether a job in this state is over.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, JobState::Cancelled | JobState::Completed | JobState::Discarded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UniqueScope;
    use crate::states::JobState::{Available, Cancelled, Completed, Discarded, Retryable, Running, Scheduled};

    #[test]
    fn bits_follow_the_alphabet() {
        let mut states = JobState::ALL;
        states.sort_by_key(|state| state.as_str());
        for (index, state) in states.into_iter().enumerate() {
            assert_eq!(StateSet::from(state).bits(), 1 << index, "{state}");
        }
        assert_eq!(StateSet::ALL_BUT_COMPLETED.bits(), 251);
    }

    #[test]
    fn every_bitmask_reads_back_and_no_other_number_does() {
        for bits in 0..=255 {
            let set = StateSet::from_bits(bits).unwrap();
            assert_eq!(set.bits(), bits);
            assert_eq!(set.iter().collect::<StateSet>(), set);
            assert_eq!(set.len(), set.iter().count());
            let json = serde_json::to_value(set).unwrap();
            assert_eq!(serde_json::from_value::<StateSet>(json).unwrap(), set);
        }
        assert_eq!(StateSet::from_bits(-1), None);
        assert_eq!(StateSet::from_bits(256), None);
    }

    #[test]
    fn a_set_reads_as_words() {
        let set = StateSet::of(&[JobState::Scheduled, JobState::Available]);
        assert_eq!(set.to_string(), "scheduled, available");
        assert_eq!(format!("{set:?}"), "{Scheduled, Available}");
        assert_eq!(StateSet::EMPTY.to_string(), "");
        assert_eq!(serde_json::to_string(&set).unwrap(), r#"["scheduled","available"]"#);
        assert!(serde_json::from_str::<StateSet>(r#"["active"]"#).is_err());
    }

    #[test]
    fn states_are_added_and_taken_away() {
        let set = StateSet::from([JobState::Running]).with(JobState::Pending);
        assert!(set.contains(JobState::Pending));
        assert_eq!(set.without(JobState::Pending), StateSet::from(JobState::Running));
        assert!(set.intersection(JobState::Completed.into()).is_empty());
    }

    #[test]
    fn a_claim_that_is_given_up_and_taken_back_is_a_gap() {
        for scope in UniqueScope::ALL {
            assert!(scope.states().gap().is_empty(), "{scope}");
        }
        for (states, gap) in [
            (&[Available, Running][..], "scheduled, retryable"),
            (&[Available, Running, Scheduled], "retryable"),
            (&[Available, Scheduled, Retryable, Completed], "running"),
            (&[Scheduled, Running, Retryable], "available"),
            (&[Scheduled, Retryable], "available, running"),
            (&[Running], "scheduled, available, retryable"),
            // Claims until the job is due, or until it starts.
            (&[Scheduled], ""),
            (&[Available], ""),
            (&[Available, Scheduled], ""),
            (&[Available, Scheduled, Retryable], ""),
            // Pending and final states are none.
            (&[Available, Scheduled, Retryable, Running], ""),
            (&[Available, Scheduled, Retryable, Running, Discarded], ""),
            (&[Completed, Cancelled], ""),
        ] {
            assert_eq!(StateSet::of(states).gap().to_string(), gap, "{states:?}");
        }
    }
}
