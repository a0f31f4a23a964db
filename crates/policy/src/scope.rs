//! Common sets of states.

use crate::states::{JobState, StateSet};

words! {
    member "scope";

    /// A common set of states, each a superset of the one before.
    ///
    /// ```text
    ///            scheduled  pending  available  retryable  running  completed  cancelled  discarded
    /// Queued     ─────────────────────────────────────────
    /// Active     ──────────────────────────────────────────────────
    /// Completed  ─────────────────────────────────────────────────────────────
    /// Exists     ───────────────────────────────────────────────────────────────────────────────────
    /// ```
    ///
    /// `Queued`, `Active` and `Exists` are Zizq's scopes, `Active` is OJS's default set of states,
    /// `Completed` is River's. `ALL` has the narrowest first.
    pub enum UniqueScope {
        /// Until a worker takes the job: `available`, `pending`, `retryable`, `scheduled`. A job
        /// that is running does not block its successor, so no update is lost; Zizq's default.
        Queued = "queued",
        /// Until the job is over: `Queued` and `running`.
        Active = "active",
        /// Until a completed job is pruned: `Active` and `completed`; River's default.
        Completed = "completed",
        /// For as long as the row exists: all eight states.
        Exists = "exists",
    }
}

impl UniqueScope {
    /// The states that the scope covers.
    #[must_use]
    pub const fn states(self) -> StateSet {
        const QUEUED: StateSet =
            StateSet::of(&[JobState::Available, JobState::Pending, JobState::Retryable, JobState::Scheduled]);
        match self {
            UniqueScope::Queued => QUEUED,
            UniqueScope::Active => QUEUED.with(JobState::Running),
            UniqueScope::Completed => QUEUED.with(JobState::Running).with(JobState::Completed),
            UniqueScope::Exists => StateSet::ALL,
        }
    }
}

impl From<UniqueScope> for StateSet {
    fn from(scope: UniqueScope) -> Self {
        scope.states()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_have_their_bitmasks() {
        let bits = UniqueScope::ALL.map(|scope| scope.states().bits());
        assert_eq!(bits, [177, 241, 245, 255]);
    }

    #[test]
    fn each_scope_is_a_superset_of_the_one_before() {
        for pair in UniqueScope::ALL.windows(2) {
            assert!(pair[0].states().is_disjoint(pair[1].states().complement()));
            assert_ne!(pair[0].states(), pair[1].states());
        }
    }
}
