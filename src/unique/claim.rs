//! The claim of a job: its key, its states, its time limits.

use crate::error::Result;
use crate::period::Length;
use crate::state::JobState;
use crate::unique::conflict::{OnConflict, OnReentry, Until};
use crate::unique::flaw::{invalid, require};
use crate::unique::scope::UniqueScope;
use crate::unique::states::StateSet;
use crate::unique::update::Update;

/// A resolved policy: everything that an insert needs for a job's uniqueness.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Claim {
    /// The unique key: 1 to 512 bytes, no NUL.
    pub key: String,
    /// The states in which the job claims its key; at least one.
    pub states: StateSet,
    /// The claim ends this long after `created_at`. Never set together with `ttl`.
    pub period: Option<Length>,
    /// The claim ends this long after the later of `created_at` and `scheduled_at`.
    pub ttl: Option<Length>,
    /// Whether the fetch gives the claim up for good.
    pub until_start: bool,
    /// Whether a job that comes back and finds its key taken is discarded. Otherwise it goes on
    /// without the claim.
    pub discard_on_reentry: bool,
    /// The reaction of this insert to a holder.
    pub on_conflict: OnConflict,
    /// What the insert changes of a waiting holder. Counts only where `on_conflict` is `Update`.
    pub update: Update,
}

/// All of a claim except its key: the common part of a [`UniqueKey`](crate::UniqueKey) and a
/// [`UniquePolicy`](crate::UniquePolicy).
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Terms {
    pub(crate) states: StateSet,
    pub(crate) period: Option<Length>,
    pub(crate) ttl: Option<Length>,
    pub(crate) until_start: bool,
    pub(crate) on_reentry: OnReentry,
    pub(crate) on_conflict: OnConflict,
    pub(crate) update: Update,
}

impl Terms {
    pub(crate) const fn new(states: StateSet, on_conflict: OnConflict) -> Self {
        Self {
            states,
            period: None,
            ttl: None,
            until_start: false,
            on_reentry: OnReentry::GoOn,
            on_conflict,
            update: Update::latest(),
        }
    }

    /// Adds Faktory's `unique_until`. Success is a set of states, the start is not.
    pub(crate) const fn set_until(&mut self, until: Until) {
        match until {
            Until::Success => {
                self.states = StateSet::ALL_BUT_COMPLETED;
                self.until_start = false;
            }
            Until::Start => self.until_start = true,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        const BEFORE_START: StateSet = UniqueScope::Queued.states();

        require(!self.states.is_empty(), "states", || "must name at least one state: []")?;
        require(!self.until_start || !self.states.intersection(BEFORE_START).is_empty(), "until", || {
            format!("start ends the claim at the fetch, and the states hold none before it: {}", self.states)
        })?;
        if let (Some(period), Some(ttl)) = (self.period, self.ttl) {
            let both = format!("{period} and {ttl}");
            return Err(invalid(
                "ttl",
                format!("stands beside period, and only one of period, ttl and window may limit a claim: {both}"),
            ));
        }
        self.period.map_or(Ok(()), Length::check)?;
        self.ttl.map_or(Ok(()), Length::check)?;
        let covers_run = self.states.contains(JobState::Running) && !self.until_start;
        require(self.on_conflict != OnConflict::RunAgain || !covers_run, "on_conflict", || {
            format!("run_again needs a scope without running: {}", self.states)
        })?;
        if self.on_conflict == OnConflict::Update { self.update.check(self.period) } else { Ok(()) }
    }

    /// The claim on a key. The terms must have been checked.
    pub(crate) fn claim(&self, key: String) -> Claim {
        let Self { states, period, ttl, until_start, on_reentry, on_conflict, update } = *self;
        Claim {
            key,
            states,
            period,
            ttl,
            until_start,
            discard_on_reentry: on_reentry == OnReentry::Discard,
            on_conflict,
            update,
        }
    }
}

/// The setters that keys and policies share. Each must have `terms` and `mark_enforced`.
macro_rules! terms_setters {
    () => {
        /// Claims the key in a common set of states. As `states`, of which the last call counts.
        pub fn scope(self, scope: $crate::unique::scope::UniqueScope) -> Self {
            self.states(scope)
        }

        /// Claims the key in these states. Any set except the empty one is allowed.
        pub fn states(mut self, states: impl Into<$crate::unique::states::StateSet>) -> Self {
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
        pub fn until(mut self, until: $crate::unique::conflict::Until) -> Self {
            self.terms.set_until(until);
            self.mark_enforced();
            self
        }

        /// Gives the claim up for good when a runner fetches the job: `until(Until::Start)`.
        pub fn until_start(self) -> Self {
            self.until($crate::unique::conflict::Until::Start)
        }

        /// The reaction of an insert to a holder.
        pub fn on_conflict(mut self, on_conflict: $crate::unique::conflict::OnConflict) -> Self {
            self.terms.on_conflict = on_conflict;
            self
        }

        /// Changes a holder that waits, in place: `on_conflict(OnConflict::Update)` with these parameters.
        pub fn update(mut self, update: $crate::unique::update::Update) -> Self {
            self.terms.on_conflict = $crate::unique::conflict::OnConflict::Update;
            self.terms.update = update;
            self
        }

        /// The reaction of this job when it comes back into its states and another job holds the key.
        /// Default: it goes on without the claim.
        pub fn on_reentry(mut self, on_reentry: $crate::unique::conflict::OnReentry) -> Self {
            self.terms.on_reentry = on_reentry;
            self
        }
    };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn problem(change: impl FnOnce(&mut Terms)) -> String {
        let mut terms = Terms::new(UniqueScope::Active.states(), OnConflict::Ignore);
        terms.check().unwrap();
        change(&mut terms);
        let text = terms.check().unwrap_err().to_string();
        text.split("; hint: ").next().unwrap().to_owned()
    }

    #[test]
    fn terms_that_can_never_work_are_refused() {
        assert_eq!(
            problem(|terms| terms.states = StateSet::EMPTY),
            "invalid unique policy: states: must name at least one state: []"
        );
        assert_eq!(
            problem(|terms| {
                terms.states = JobState::Running.into();
                terms.until_start = true;
            }),
            "invalid unique policy: until: start ends the claim at the fetch, and the states hold none before it: running"
        );
        assert_eq!(
            problem(|terms| terms.ttl = Some(Duration::ZERO.into())),
            "invalid period: must be longer than nothing: \"PT0S\""
        );
    }

    #[test]
    fn a_claim_has_one_time_limit_at_most() {
        let text = problem(|terms| {
            terms.period = Some(Duration::from_secs(60).into());
            terms.ttl = Some(Duration::from_secs(1).into());
        });
        assert!(text.ends_with(": PT1M and PT1S"), "{text}");
    }
}
