//! The claim of a job: its key, its states, its time limits.

use uniqueue_policy::{Problem, Terms};

use crate::error::{Error, Result};

/// A resolved policy: the key that it makes of a job, and the terms on which the job claims it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Claim {
    /// The unique key: 1 to 512 bytes, no NUL.
    pub key: String,
    /// The terms, which were checked. The window is in the key already.
    pub terms: Terms,
}

/// Checks terms by the rules that the derive macro and SQL have as well.
pub(crate) fn check(terms: &Terms) -> Result<()> {
    terms.problems().next().map_or(Ok(()), |problem| Err(problem.into()))
}

/// A flaw of a policy's field. `problem` ends in the value.
pub(crate) fn invalid(field: &'static str, problem: impl Into<String>) -> Error {
    Error::InvalidPolicy { field, problem: problem.into() }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        match (problem.member, &problem.item) {
            ("state", Some(given)) => return Error::UnknownState { given: given.clone() },
            ("length", Some(given)) => {
                return Error::InvalidPeriod { problem: problem.reason, given: given.clone() };
            }
            _ => {}
        }
        let hint = if problem.hint.is_empty() { String::new() } else { format!("; hint: {}", problem.hint) };
        invalid(problem.member, format!("{problem}{hint}"))
    }
}

/// The setters that keys and policies share. Each must have `terms` and `mark_enforced`.
macro_rules! terms_setters {
    () => {
        /// Claims the key in a common set of states. As `states`, of which the last call counts.
        pub fn scope(self, scope: $crate::unique::UniqueScope) -> Self {
            self.states(scope)
        }

        /// Claims the key in these states. Any set except the empty one is allowed.
        pub fn states(mut self, states: impl Into<$crate::unique::StateSet>) -> Self {
            self.terms.states = states.into();
            self.mark_enforced();
            self
        }

        /// Ends the claim this long after the holder was created (OJS's `period`), in any
        /// state. Default: no limit. At most 100 years, whole microseconds; not together
        /// with `ttl`. A [`Length`](crate::period::Length) may hold calendar months, which are added in UTC.
        pub fn period(mut self, period: impl Into<$crate::period::Length>) -> Self {
            self.terms.period = Some(period.into());
            self.mark_enforced();
            self
        }

        /// Ends the claim this long after the holder was created or, if that is later, was
        /// scheduled to run (Faktory's `unique_for`). Default: no limit. At most 100 years, whole
        /// microseconds; not together with `period`. Calendar months are as in `period`.
        pub fn ttl(mut self, ttl: impl Into<$crate::period::Length>) -> Self {
            self.terms.ttl = Some(ttl.into());
            self.mark_enforced();
            self
        }

        /// The event that ends the claim for good (Faktory's `unique_until`). Default: only leaving the
        /// states ends it.
        ///
        /// `Until::Success` sets the states to all but `completed`, so that only success or a
        /// time limit frees the key. `Until::Start` leaves the states as they are and gives the
        /// claim up at the fetch.
        pub fn until(mut self, until: $crate::unique::Until) -> Self {
            self.terms.set_until(until);
            self.mark_enforced();
            self
        }

        /// Gives the claim up for good when a runner fetches the job: `until(Until::Start)`.
        pub fn until_start(self) -> Self {
            self.until($crate::unique::Until::Start)
        }

        /// The reaction of an insert to a holder.
        pub fn on_conflict(mut self, on_conflict: $crate::unique::OnConflict) -> Self {
            self.terms.on_conflict = on_conflict;
            self
        }

        /// Changes a holder that waits, in place: `on_conflict(OnConflict::Update)` with these parameters.
        pub fn update(mut self, update: $crate::unique::Update) -> Self {
            self.terms.on_conflict = $crate::unique::OnConflict::Update;
            self.terms.update = update;
            self
        }

        /// The reaction of this job when it comes back into its states and another job holds the key.
        /// Default: it goes on without the claim.
        pub fn on_reentry(mut self, on_reentry: $crate::unique::OnReentry) -> Self {
            self.terms.on_reentry = on_reentry;
            self
        }
    };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uniqueue_policy::{Length, OnConflict, UniqueScope, Update};

    use super::*;

    #[test]
    fn a_calendar_month_outlasts_28_days() {
        let mut terms = Terms::new(UniqueScope::Queued.states(), OnConflict::Update);
        terms.period = Some(Length::months(1));
        terms.update = Update::latest().push(Duration::from_secs(28 * 86_400));
        check(&terms).unwrap();
        terms.update = Update::latest().push(Duration::from_secs(28 * 86_400 + 1));
        assert!(check(&terms).is_err());
    }
}
