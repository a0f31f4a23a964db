//! A policy in words, for people.

use uniqueue_policy::{Length, OnConflict, OnReentry, Part};

use crate::unique::policy::UniquePolicy;

impl UniquePolicy {
    /// The policy in words: which jobs are the same, in which states the key is claimed, and what a duplicate does.
    ///
    /// ```
    /// use uniqueue::UniquePolicy;
    ///
    /// assert_eq!(
    ///     UniquePolicy::zizq().in_words(),
    ///     "same kind and args; while pending, scheduled, available, retryable; a duplicate is ignored"
    /// );
    /// ```
    #[must_use]
    pub fn in_words(&self) -> String {
        if !self.is_enforced {
            return "not unique".to_owned();
        }
        let terms = &self.terms;
        let mut words = vec![self.sameness(), format!("while {}", terms.states)];
        if let Some(period) = terms.period {
            words.push(format!("for {period} after the insert"));
        }
        if let Some(ttl) = terms.ttl {
            words.push(format!("for {ttl} after it is due"));
        }
        if terms.until_start {
            words.push("until it starts".to_owned());
        }
        words.push(duplicate(terms.on_conflict).to_owned());
        if let Some(delay) = self.delay() {
            words.push(format!("due {} after the latest duplicate", Length::from(delay)));
        }
        if terms.on_reentry == OnReentry::Discard {
            words.push("a job that comes back to a taken key is discarded".to_owned());
        }
        words.join("; ")
    }

    /// The parts in which jobs with one key are equal.
    fn sameness(&self) -> String {
        match &self.key {
            Some(Ok(key)) => return format!("key {key:?}"),
            Some(Err(_)) => return "an invalid key".to_owned(),
            None => {}
        }
        let mut parts = Vec::new();
        if self.parts.has_kind {
            parts.push("kind".to_owned());
        }
        if self.parts.has_queue {
            parts.push("queue".to_owned());
        }
        match &self.parts.args {
            None => {}
            Some(chosen) if Part::are_all(chosen) => parts.push("args".to_owned()),
            Some(chosen) => parts.extend(chosen.iter().map(|part| {
                let optional = if part.is_required { "" } else { " where it is there" };
                format!("args {}{optional}", part.given)
            })),
        }
        parts.extend(self.parts.meta.iter().flat_map(|parts| parts.iter()).map(|part| format!("meta {}", part.given)));
        if let Some(window) = self.terms.window {
            parts.push(format!("window of {}", Length::from(window)));
        }
        let last = parts.pop().unwrap_or_default();
        if parts.is_empty() { format!("same {last}") } else { format!("same {} and {last}", parts.join(", ")) }
    }
}

const fn duplicate(on_conflict: OnConflict) -> &'static str {
    match on_conflict {
        OnConflict::Ignore => "a duplicate is ignored",
        OnConflict::Reject => "a duplicate is rejected",
        OnConflict::Replace => "a duplicate replaces the holder, unless it runs",
        OnConflict::ReplaceExceptSchedule => "a duplicate replaces the holder at its time, unless it runs",
        OnConflict::Preempt => "a duplicate replaces the holder, also if it runs",
        OnConflict::Update => "a duplicate updates the holder",
        OnConflict::RunAgain => "a duplicate is covered by the holder",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::unique::{UniqueScope, Update};

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn each_part_of_a_policy_is_said() {
        let queued = UniquePolicy::new().scope(UniqueScope::Queued);
        for (policy, words) in [
            (UniquePolicy::river(), "not unique"),
            (
                UniquePolicy::new().by_queue().by_arg_fields(["a", "/b/c"]).optional_arg_fields(["d"]).window(HOUR),
                "same kind, queue, args a, args /b/c, args d where it is there and window of PT1H; while pending, \
                 scheduled, available, running, retryable; a duplicate is ignored",
            ),
            (
                queued.clone().key("k\n").until_start().on_conflict(OnConflict::Preempt),
                "key \"k\\n\"; while pending, scheduled, available, retryable; until it starts; a duplicate replaces the \
                 holder, also if it runs",
            ),
            (
                queued.clone().exclude_kind().by_meta(["m"]).ttl(HOUR).update(Update::merge()),
                "same meta m; while pending, scheduled, available, retryable; for PT1H after it is due; a duplicate \
                 updates the holder",
            ),
            (
                queued.clone().update(Update::latest().debounce(HOUR / 2, HOUR)),
                "same kind; while pending, scheduled, available, retryable; a duplicate updates the holder; due PT30M after \
                 the latest duplicate",
            ),
            (
                queued.period(HOUR).on_conflict(OnConflict::RunAgain).on_reentry(OnReentry::Discard),
                "same kind; while pending, scheduled, available, retryable; for PT1H after the insert; a duplicate is \
                 covered by the holder; a job that comes back to a taken key is discarded",
            ),
        ] {
            assert_eq!(policy.in_words(), words);
        }
    }
}
