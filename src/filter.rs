//! Selecting jobs: a [`JobFilter`] by conditions, a [`JobSelection`] by conditions or ids.

use serde_json::Value;
use time::OffsetDateTime;

use crate::error::{Error, Result};
use crate::group::Group;
use crate::ident::{JobId, Kind, QueueName};
use crate::json::check_jsonb;
use crate::state::JobState;
use crate::unique::{StateSet, UniqueKey};

/// Conditions on jobs. A filter selects the jobs that meet all of them.
///
/// ```
/// use serde_json::json;
/// use uniqueue::{JobFilter, JobState};
///
/// // The failed jobs of one tenant.
/// let filter = JobFilter::new()
///     .states([JobState::Retryable, JobState::Discarded])
///     .kind("email.send")
///     .args(json!({"tenant": 7}));
/// # let _ = filter;
/// ```
///
/// A filter without conditions is an error, so that a forgotten condition cannot delete every job.
/// [`JobFilter::all`] selects all jobs.
///
/// Times are compared with the clock of the database, which set them. A value outside its limits is an
/// error when the filter is used.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct JobFilter {
    pub(crate) means_all: bool,
    pub(crate) ids: Option<Vec<JobId>>,
    pub(crate) except_ids: Option<Vec<JobId>>,
    pub(crate) id_at_least: Option<JobId>,
    pub(crate) states: Option<StateSet>,
    pub(crate) queues: Option<Vec<String>>,
    pub(crate) kinds: Option<Vec<String>>,
    pub(crate) unique_key: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) args: Option<Value>,
    pub(crate) args_path: Option<String>,
    pub(crate) meta: Option<Value>,
    pub(crate) priority: Option<i16>,
    pub(crate) attempts_at_least: Option<u16>,
    pub(crate) error_code: Option<String>,
    pub(crate) error_pattern: Option<String>,
    pub(crate) created: Between,
    pub(crate) scheduled: Between,
    pub(crate) attempted: Between,
    pub(crate) finalized: Between,
    pub(crate) failed: Between,
    pub(crate) limit: Option<u32>,
}

/// A span of time that includes its start and excludes its end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Between {
    pub(crate) after: Option<OffsetDateTime>,
    pub(crate) before: Option<OffsetDateTime>,
}

impl JobFilter {
    /// A filter without conditions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects all jobs. It takes conditions as any other filter does.
    pub fn all() -> Self {
        Self { means_all: true, ..Self::default() }
    }

    /// Selects jobs with these ids.
    pub fn ids<I>(mut self, ids: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<JobId>,
    {
        self.ids = Some(ids.into_iter().map(Into::into).collect());
        self
    }

    /// Leaves out jobs with these ids. It is a condition of its own: without others, all other jobs are selected.
    pub fn except_ids<I>(mut self, ids: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<JobId>,
    {
        self.except_ids = Some(ids.into_iter().map(Into::into).collect());
        self
    }

    /// Selects jobs with this id or a higher one. Ids follow time, so with [`JobId::first_at`] a filter of the last hour reads
    /// no older jobs. An id is made by the clock of the client that inserts: leave room for clocks that are behind, and say
    /// the exact time with [`created_after`](Self::created_after). A job that was given an id of its own can be missed.
    pub fn id_at_least(mut self, id: impl Into<JobId>) -> Self {
        self.id_at_least = Some(id.into());
        self
    }

    /// Selects jobs in one of these states: a [`JobState`](crate::JobState), or an array of them.
    pub fn states(mut self, states: impl Into<StateSet>) -> Self {
        self.states = Some(states.into());
        self
    }

    /// Selects jobs of one queue.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.queues([queue])
    }

    /// Selects jobs of one of these queues: at least one.
    pub fn queues<I>(mut self, queues: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.queues = Some(queues.into_iter().map(Into::into).collect());
        self
    }

    /// Selects jobs of one kind.
    pub fn kind(self, kind: impl Into<String>) -> Self {
        self.kinds([kind])
    }

    /// Selects jobs of one of these kinds: at least one.
    pub fn kinds<I>(mut self, kinds: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.kinds = Some(kinds.into_iter().map(Into::into).collect());
        self
    }

    /// Selects the job that claims a unique key now. At most one job does.
    pub fn unique_key(mut self, unique_key: impl Into<String>) -> Self {
        self.unique_key = Some(unique_key.into());
        self
    }

    /// Selects jobs of one group. Groups of several queues can have one key: name the queue as well.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Selects jobs whose args contain this value, by the rules of `jsonb @>`: objects must contain
    /// these members, and arrays these items.
    pub fn args(mut self, args: impl Into<Value>) -> Self {
        self.args = Some(args.into());
        self
    }

    /// Selects jobs in whose args this SQL/JSON path finds something, by the rules of `jsonb @?`:
    /// `$.to ? (@ like_regex "^ada@")` finds args with a member `to` that begins so. Args have no index.
    /// Text that is no such path is [`Error::Database`].
    pub fn args_path(mut self, path: impl Into<String>) -> Self {
        self.args_path = Some(path.into());
        self
    }

    /// Selects jobs whose meta contains this value, as with [`JobFilter::args`].
    pub fn meta(mut self, meta: impl Into<Value>) -> Self {
        self.meta = Some(meta.into());
        self
    }

    /// Selects jobs with one priority.
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Selects jobs that were started at least this many times.
    pub fn attempts_at_least(mut self, attempts: u16) -> Self {
        self.attempts_at_least = Some(attempts);
        self
    }

    /// Selects jobs whose last error has this code: a worker's ([`JobError::code`](crate::JobError::code)), or uniqueue's
    /// own ([`AttemptError::code`](crate::AttemptError::code)), such as `expired`.
    pub fn error_code(mut self, code: impl Into<String>) -> Self {
        self.error_code = Some(code.into());
        self
    }

    /// Selects jobs whose last error has this pattern: its first line with a `#` for each word with a digit, as
    /// `failing_errors` of the crate `uniqueue-admin` lists it.
    pub fn error_pattern(mut self, pattern: impl Into<String>) -> Self {
        self.error_pattern = Some(pattern.into());
        self
    }

    /// Selects jobs that were inserted at this time or later.
    pub fn created_after(mut self, at: OffsetDateTime) -> Self {
        self.created.after = Some(at);
        self
    }

    /// Selects jobs that were inserted before this time.
    pub fn created_before(mut self, at: OffsetDateTime) -> Self {
        self.created.before = Some(at);
        self
    }

    /// Selects jobs whose `scheduled_at` is this time or later.
    pub fn scheduled_after(mut self, at: OffsetDateTime) -> Self {
        self.scheduled.after = Some(at);
        self
    }

    /// Selects jobs whose `scheduled_at` is before this time.
    pub fn scheduled_before(mut self, at: OffsetDateTime) -> Self {
        self.scheduled.before = Some(at);
        self
    }

    /// Selects jobs whose latest attempt started at this time or later.
    pub fn attempted_after(mut self, at: OffsetDateTime) -> Self {
        self.attempted.after = Some(at);
        self
    }

    /// Selects jobs whose latest attempt started before this time. Running jobs have run since then.
    pub fn attempted_before(mut self, at: OffsetDateTime) -> Self {
        self.attempted.before = Some(at);
        self
    }

    /// Selects jobs that became final at this time or later.
    pub fn finalized_after(mut self, at: OffsetDateTime) -> Self {
        self.finalized.after = Some(at);
        self
    }

    /// Selects jobs that became final before this time.
    pub fn finalized_before(mut self, at: OffsetDateTime) -> Self {
        self.finalized.before = Some(at);
        self
    }

    /// Selects jobs whose last error was recorded at this time or later, whatever became of them since.
    pub fn failed_after(mut self, at: OffsetDateTime) -> Self {
        self.failed.after = Some(at);
        self
    }

    /// Selects jobs whose last error was recorded before this time.
    pub fn failed_before(mut self, at: OffsetDateTime) -> Self {
        self.failed.before = Some(at);
        self
    }

    /// The largest number of jobs. A change takes those with the lowest ids, which are the oldest.
    /// Default: no limit for a change, 100 for a list.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The states in which a job still matches when it is changed. A job that became final at the given
    /// time no longer matches after a retry.
    pub(crate) fn states_meant(&self) -> Option<StateSet> {
        if self.finalized == Between::default() {
            return self.states;
        }
        let is_final = StateSet::of(&[JobState::Cancelled, JobState::Completed, JobState::Discarded]);
        Some(self.states.map_or(is_final, |states| states.intersection(is_final)))
    }

    /// Whether it has no condition and is not [`JobFilter::all`].
    fn is_empty(&self) -> bool {
        *self == Self { limit: self.limit, ..Self::default() }
    }

    /// Checks the conditions against their limits.
    pub(crate) fn check(&self) -> Result<()> {
        let invalid = |option, problem, given: String| Err(Error::InvalidOption { option, problem, given });
        if self.is_empty() {
            let problem = "it has no condition; JobFilter::all() selects every job";
            return invalid("filter", problem, "JobFilter::new()".to_owned());
        }
        if self.states.is_some_and(StateSet::is_empty) {
            return invalid("states", "must not be empty", "[]".to_owned());
        }
        for (option, names) in [("queues", &self.queues), ("kinds", &self.kinds)] {
            if names.as_ref().is_some_and(Vec::is_empty) {
                return invalid(option, "must not be empty", "[]".to_owned());
            }
        }
        for queue in self.queues.iter().flatten() {
            QueueName::new(queue)?;
        }
        for kind in self.kinds.iter().flatten() {
            Kind::new(kind)?;
        }
        if let Some(key) = &self.unique_key {
            UniqueKey::raw(key).text()?;
        }
        if let Some(group) = &self.group {
            Group::new(Some(group.clone()), None, false)?;
        }
        for (option, text) in [("args_path", &self.args_path), ("error_pattern", &self.error_pattern)] {
            if let Some(text) = text.as_ref().filter(|text| text.contains('\0')) {
                return invalid(option, "must not contain NUL", format!("{text:?}"));
            }
        }
        for (what, value) in [("args", &self.args), ("meta", &self.meta)] {
            if let Some(value) = value {
                check_jsonb(what, "a filter", value)?;
            }
        }
        let times = [("created", self.created), ("scheduled", self.scheduled), ("attempted", self.attempted)];
        for (option, between) in times.into_iter().chain([("finalized", self.finalized), ("failed", self.failed)]) {
            for at in [between.after, between.before].into_iter().flatten() {
                if !(1..=9_000).contains(&at.year()) {
                    return invalid(option, "must be in the years 1 to 9000", at.to_string());
                }
            }
        }
        Ok(())
    }
}

/// The jobs of a change: their ids, or a [`JobFilter`]. It converts from one id, from ids in an array,
/// `Vec`, slice or iterator, and from a filter.
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
    fn a_filter_without_conditions_is_an_error() {
        let error = JobFilter::new().limit(5).check().unwrap_err().to_string();
        assert!(error.contains("JobFilter::all()"), "{error}");
        JobFilter::all().check().unwrap();
        JobFilter::new().states(JobState::Available).check().unwrap();
    }

    #[test]
    fn an_invalid_condition_is_named() {
        for (filter, name) in [
            (JobFilter::new().states([]), "states"),
            (JobFilter::new().queue(""), "queue"),
            (JobFilter::new().queues(["a", ""]), "queue"),
            (JobFilter::new().queues([""; 0]), "queues"),
            (JobFilter::new().kinds([""; 0]), "kinds"),
            (JobFilter::new().kind("a\0"), "kind"),
            (JobFilter::new().unique_key("a\0b"), "key"),
            (JobFilter::new().args(json!({"a": "\0"})), "args"),
            (JobFilter::new().meta(json!({"\0": 1})), "meta"),
            (JobFilter::new().created_before(datetime!(9999-01-01 0:00 UTC)), "created"),
        ] {
            let error = filter.check().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
