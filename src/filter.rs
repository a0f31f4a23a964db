//! Which jobs: a [`JobFilter`] says it by what they are, a [`JobSelection`] by that or by their ids.

use serde_json::Value;
use time::OffsetDateTime;

use crate::error::{Error, Result};
use crate::ident::{JobId, Kind, QueueName};
use crate::state::JobState;
use crate::unique::{StateSet, UniqueKey, check_jsonb};

/// Which jobs, by what they are. A job is meant when everything that is said here holds.
///
/// ```
/// use serde_json::json;
/// use uniqueue::{JobFilter, JobState};
///
/// // What fails for one tenant.
/// let filter = JobFilter::new()
///     .states([JobState::Retryable, JobState::Discarded])
///     .kind("email.send")
///     .args(json!({"tenant": 7}));
/// # let _ = filter;
/// ```
///
/// A filter that says nothing means no job, so that a condition that was forgotten cannot delete a
/// table: using one is an error. [`JobFilter::all`] means all.
///
/// Times are compared with the clock of the database, which set them. Values outside their limits
/// are reported when the filter is used.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct JobFilter {
    pub(crate) means_all: bool,
    pub(crate) ids: Option<Vec<JobId>>,
    pub(crate) states: Option<StateSet>,
    pub(crate) queue: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) unique_key: Option<String>,
    pub(crate) args: Option<Value>,
    pub(crate) meta: Option<Value>,
    pub(crate) priority: Option<i16>,
    pub(crate) attempts_at_least: Option<u16>,
    pub(crate) created: Between,
    pub(crate) scheduled: Between,
    pub(crate) attempted: Between,
    pub(crate) finalized: Between,
    pub(crate) limit: Option<u32>,
}

/// A span of time, with its start and without its end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Between {
    pub(crate) after: Option<OffsetDateTime>,
    pub(crate) before: Option<OffsetDateTime>,
}

impl JobFilter {
    /// A filter that says nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// All jobs. Conditions can be added as to any other filter.
    pub fn all() -> Self {
        Self { means_all: true, ..Self::default() }
    }

    /// Jobs with these ids.
    pub fn ids<I>(mut self, ids: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<JobId>,
    {
        self.ids = Some(ids.into_iter().map(Into::into).collect());
        self
    }

    /// Jobs in one of these states: a [`JobState`](crate::JobState), or several in an array.
    pub fn states(mut self, states: impl Into<StateSet>) -> Self {
        self.states = Some(states.into());
        self
    }

    /// Jobs of one queue.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Jobs of one kind.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// The job that claims a unique key now. At most one does.
    pub fn unique_key(mut self, unique_key: impl Into<String>) -> Self {
        self.unique_key = Some(unique_key.into());
        self
    }

    /// Jobs whose args contain this, as `jsonb @>` understands it: of objects the members given, of
    /// arrays the items given.
    pub fn args(mut self, args: impl Into<Value>) -> Self {
        self.args = Some(args.into());
        self
    }

    /// Jobs whose meta contains this, as [`JobFilter::args`].
    pub fn meta(mut self, meta: impl Into<Value>) -> Self {
        self.meta = Some(meta.into());
        self
    }

    /// Jobs of one priority.
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Jobs that were started at least so often.
    pub fn attempts_at_least(mut self, attempts: u16) -> Self {
        self.attempts_at_least = Some(attempts);
        self
    }

    /// Jobs that were inserted then or later.
    pub fn created_after(mut self, at: OffsetDateTime) -> Self {
        self.created.after = Some(at);
        self
    }

    /// Jobs that were inserted earlier.
    pub fn created_before(mut self, at: OffsetDateTime) -> Self {
        self.created.before = Some(at);
        self
    }

    /// Jobs whose `scheduled_at` is then or later.
    pub fn scheduled_after(mut self, at: OffsetDateTime) -> Self {
        self.scheduled.after = Some(at);
        self
    }

    /// Jobs whose `scheduled_at` is earlier.
    pub fn scheduled_before(mut self, at: OffsetDateTime) -> Self {
        self.scheduled.before = Some(at);
        self
    }

    /// Jobs whose latest attempt started then or later.
    pub fn attempted_after(mut self, at: OffsetDateTime) -> Self {
        self.attempted.after = Some(at);
        self
    }

    /// Jobs whose latest attempt started earlier: of running ones, those that run for so long.
    pub fn attempted_before(mut self, at: OffsetDateTime) -> Self {
        self.attempted.before = Some(at);
        self
    }

    /// Jobs that became final then or later.
    pub fn finalized_after(mut self, at: OffsetDateTime) -> Self {
        self.finalized.after = Some(at);
        self
    }

    /// Jobs that became final earlier.
    pub fn finalized_before(mut self, at: OffsetDateTime) -> Self {
        self.finalized.before = Some(at);
        self
    }

    /// At most so many of them: of a change those with the lowest ids, which are the oldest.
    /// Default: all of a change, 100 of a list.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = Some(limit);
        self
    }

    /// In which states a job still is one that is meant, when its turn comes: what became final at some
    /// time is not meant any more once it has come back.
    pub(crate) fn states_meant(&self) -> Option<StateSet> {
        if self.finalized == Between::default() {
            return self.states;
        }
        let is_final = StateSet::of(&[JobState::Cancelled, JobState::Completed, JobState::Discarded]);
        Some(self.states.map_or(is_final, |states| states.intersection(is_final)))
    }

    /// Whether it has no condition, and does not say that this is meant.
    fn says_nothing(&self) -> bool {
        *self == Self { limit: self.limit, ..Self::default() }
    }

    /// Refuses what cannot be asked.
    pub(crate) fn check(&self) -> Result<()> {
        let invalid = |option, problem, given: String| Err(Error::InvalidOption { option, problem, given });
        if self.says_nothing() {
            return invalid(
                "filter",
                "it says nothing; JobFilter::all() means every job",
                "JobFilter::new()".to_owned(),
            );
        }
        if self.states.is_some_and(StateSet::is_empty) {
            return invalid("states", "must not be empty", "[]".to_owned());
        }
        if let Some(queue) = &self.queue {
            QueueName::new(queue)?;
        }
        if let Some(kind) = &self.kind {
            Kind::new(kind)?;
        }
        if let Some(key) = &self.unique_key {
            UniqueKey::raw(key).text()?;
        }
        for (what, value) in [("args", &self.args), ("meta", &self.meta)] {
            if let Some(value) = value {
                check_jsonb(what, "a filter", value)?;
            }
        }
        let Self { created, scheduled, attempted, finalized, .. } = self;
        let times =
            [("created", created), ("scheduled", scheduled), ("attempted", attempted), ("finalized", finalized)];
        for (option, between) in times {
            for at in [between.after, between.before].into_iter().flatten() {
                if !(1..=9_000).contains(&at.year()) {
                    return invalid(option, "must be in the years 1 to 9000", at.to_string());
                }
            }
        }
        Ok(())
    }
}

/// Which jobs a change is for: their ids, or a [`JobFilter`]. Made by itself from one id, from
/// anything that gives ids (an array, a `Vec`, a slice, an iterator), and from a filter.
#[derive(Clone, Debug)]
pub struct JobSelection(pub(crate) Selected);

#[derive(Clone, Debug)]
pub(crate) enum Selected {
    Ids(Vec<JobId>),
    Filter(Box<JobFilter>),
}

impl From<JobFilter> for JobSelection {
    fn from(filter: JobFilter) -> Self {
        Self(Selected::Filter(Box::new(filter)))
    }
}

impl From<JobId> for JobSelection {
    fn from(id: JobId) -> Self {
        Self(Selected::Ids(vec![id]))
    }
}

impl<I> From<I> for JobSelection
where
    I: IntoIterator,
    I::Item: Into<JobId>,
{
    fn from(ids: I) -> Self {
        Self(Selected::Ids(ids.into_iter().map(Into::into).collect()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use time::macros::datetime;

    use super::*;

    #[test]
    fn a_filter_that_says_nothing_must_say_that_it_means_all() {
        let error = JobFilter::new().limit(5).check().unwrap_err().to_string();
        assert!(error.contains("JobFilter::all()"), "{error}");
        JobFilter::all().check().unwrap();
        JobFilter::new().states(JobState::Available).check().unwrap();
    }

    #[test]
    fn what_cannot_be_asked_is_named() {
        for (filter, said) in [
            (JobFilter::new().states([]), "states"),
            (JobFilter::new().queue(""), "queue"),
            (JobFilter::new().kind("a\0"), "kind"),
            (JobFilter::new().unique_key("a\0b"), "key"),
            (JobFilter::new().args(json!({"a": "\0"})), "args"),
            (JobFilter::new().meta(json!({"\0": 1})), "meta"),
            (JobFilter::new().created_before(datetime!(9999-01-01 0:00 UTC)), "created"),
        ] {
            let error = filter.check().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
