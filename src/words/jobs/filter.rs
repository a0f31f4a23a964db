//! Selecting jobs: a [`JobFilter`] by conditions, a [`JobSelection`] by conditions or ids.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::{OffsetDateTime, UtcOffset};

use crate::error::{Error, Result};
use crate::json::check_value;
use crate::unique::{StateSet, UniqueKey};
use crate::words::group::Group;
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::state::JobState;

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
///
/// It is one document for serde: an object with a member for each condition, with the name of its method here, such as
/// `{"states": ["discarded"], "kinds": ["email.send"]}`. Times are RFC 3339. A member that is null sets no condition.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(transparent)]
#[must_use]
pub struct JobFilter(pub(crate) Conditions);

macro_rules! conditions {
    ($($name:ident: $type:ty,)*) => {
        /// The conditions that are set, and which part of the jobs that meet them is meant.
        #[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct Conditions {
            $(#[serde(skip_serializing_if = "Option::is_none")] pub(crate) $name: Option<$type>,)*
        }
    };
}

conditions! {
    all: bool,
    ids: Vec<JobId>,
    except_ids: Vec<JobId>,
    id_at_least: JobId,
    id_at_most: JobId,
    states: StateSet,
    queues: Vec<String>,
    kinds: Vec<String>,
    unique_key: String,
    group: String,
    args: Value,
    args_path: String,
    meta: Value,
    priority: i16,
    attempts_at_least: u16,
    error_code: String,
    error_pattern: String,
    created_after: Moment,
    created_before: Moment,
    scheduled_after: Moment,
    scheduled_before: Moment,
    attempted_after: Moment,
    attempted_before: Moment,
    finalized_after: Moment,
    finalized_before: Moment,
    failed_after: Moment,
    failed_before: Moment,
    after: JobId,
    oldest_first: bool,
    limit: u32,
}

/// A time of a condition.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct Moment(#[serde(with = "time::serde::rfc3339")] OffsetDateTime);

/// Conditions on a time.
macro_rules! times {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        impl JobFilter {
            $($(#[$doc])*
            pub fn $name(mut self, at: OffsetDateTime) -> Self {
                self.0.$name = Some(Moment(at.checked_to_offset(UtcOffset::UTC).unwrap_or(at)));
                self
            })*

            /// The times that are set, with the names of their conditions.
            fn times(&self) -> impl Iterator<Item = (&'static str, OffsetDateTime)> {
                [$((stringify!($name), self.0.$name)),*].into_iter().filter_map(|(name, at)| Some((name, at?.0)))
            }
        }
    };
}

impl JobFilter {
    /// A filter without conditions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects all jobs. It takes conditions as any other filter does.
    pub fn all() -> Self {
        Self(Conditions { all: Some(true), ..Conditions::default() })
    }

    /// Selects jobs with these ids.
    pub fn ids<I>(mut self, ids: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<JobId>,
    {
        self.0.ids = Some(ids.into_iter().map(Into::into).collect());
        self
    }

    /// Leaves out jobs with these ids. It is a condition of its own: without others, all other jobs are selected.
    pub fn except_ids<I>(mut self, ids: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<JobId>,
    {
        self.0.except_ids = Some(ids.into_iter().map(Into::into).collect());
        self
    }

    /// Selects jobs with this id or a higher one. Ids follow time, so with [`JobId::first_at`] a filter of the last hour reads
    /// no older jobs. An id is made by the clock of the client that inserts: leave room for clocks that are behind, and say
    /// the exact time with [`created_after`](Self::created_after). A job that was given an id of its own can be missed.
    pub fn id_at_least(mut self, id: impl Into<JobId>) -> Self {
        self.0.id_at_least = Some(id.into());
        self
    }

    /// Selects jobs with this id or a lower one.
    pub fn id_at_most(mut self, id: impl Into<JobId>) -> Self {
        self.0.id_at_most = Some(id.into());
        self
    }

    /// Selects jobs in one of these states: a [`JobState`](crate::JobState), or an array of them.
    pub fn states(mut self, states: impl Into<StateSet>) -> Self {
        self.0.states = Some(states.into());
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
        self.0.queues = Some(queues.into_iter().map(Into::into).collect());
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
        self.0.kinds = Some(kinds.into_iter().map(Into::into).collect());
        self
    }

    /// Selects the job that claims a unique key now. At most one job does.
    pub fn unique_key(mut self, unique_key: impl Into<String>) -> Self {
        self.0.unique_key = Some(unique_key.into());
        self
    }

    /// Selects jobs of one group. Groups of several queues can have one key: name the queue as well.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.0.group = Some(group.into());
        self
    }

    /// Selects jobs whose args contain this value, by the rules of `jsonb @>`: objects must contain
    /// these members, and arrays these items.
    pub fn args(mut self, args: impl Into<Value>) -> Self {
        self.0.args = Some(args.into());
        self
    }

    /// Selects jobs in whose args this SQL/JSON path finds something, by the rules of `jsonb @?`:
    /// `$.to ? (@ like_regex "^ada@")` finds args with a member `to` that begins so. Args have no index.
    /// Text that is no such path is [`Error::Database`].
    pub fn args_path(mut self, path: impl Into<String>) -> Self {
        self.0.args_path = Some(path.into());
        self
    }

    /// Selects jobs whose meta contains this value, as with [`JobFilter::args`].
    pub fn meta(mut self, meta: impl Into<Value>) -> Self {
        self.0.meta = Some(meta.into());
        self
    }

    /// Selects jobs with one priority.
    pub fn priority(mut self, priority: i16) -> Self {
        self.0.priority = Some(priority);
        self
    }

    /// Selects jobs that were started at least this many times.
    pub fn attempts_at_least(mut self, attempts: u16) -> Self {
        self.0.attempts_at_least = Some(attempts);
        self
    }

    /// Selects jobs whose last error has this code: a worker's ([`JobError::code`](crate::JobError::code)), or uniqueue's
    /// own ([`AttemptError::code`](crate::AttemptError::code)), such as `expired`.
    pub fn error_code(mut self, code: impl Into<String>) -> Self {
        self.0.error_code = Some(code.into());
        self
    }

    /// Selects jobs whose last error has this pattern: its first line with a `#` for each word with a digit, as
    /// `failing_errors` of the crate `uniqueue-admin` lists it.
    pub fn error_pattern(mut self, pattern: impl Into<String>) -> Self {
        self.0.error_pattern = Some(pattern.into());
        self
    }

    /// Lists the lowest ids first. Default: the highest, which are the newest jobs. A change begins with the lowest in any case.
    pub fn oldest_first(mut self) -> Self {
        self.0.oldest_first = Some(true);
        self
    }

    /// Selects jobs that a list has after this one: with a lower id, or with a higher one if the oldest come first. With the
    /// last job of a page it selects the next page, which costs no more than the first. `None`: the first page.
    pub fn after(mut self, id: impl Into<Option<JobId>>) -> Self {
        self.0.after = id.into();
        self
    }

    /// The largest number of jobs. A change takes those with the lowest ids, which are the oldest.
    /// Default: no limit for a change, 100 for a list.
    pub fn limit(mut self, limit: u32) -> Self {
        self.0.limit = Some(limit);
        self
    }

    /// The states in which a job still matches when it is changed. A job that became final at the given
    /// time no longer matches after a retry.
    pub(crate) fn states_meant(&self) -> Option<StateSet> {
        let Conditions { states, finalized_after, finalized_before, .. } = &self.0;
        if finalized_after.or(*finalized_before).is_none() {
            return *states;
        }
        let is_final = StateSet::of(&[JobState::Cancelled, JobState::Completed, JobState::Discarded]);
        Some(states.map_or(is_final, |states| states.intersection(is_final)))
    }

    /// Whether it has no condition and is not [`JobFilter::all`].
    fn is_empty(&self) -> bool {
        let Conditions { limit, oldest_first, .. } = self.0;
        self.0 == Conditions { limit, oldest_first, ..Conditions::default() }
    }

    /// Checks the conditions against their limits.
    pub(crate) fn check(&self) -> Result<()> {
        let invalid = |option, problem, given: String| Err(Error::InvalidOption { option, problem, given });
        if self.is_empty() {
            let problem = "it has no condition; JobFilter::all() selects every job";
            return invalid("filter", problem, "JobFilter::new()".to_owned());
        }
        let Conditions { states, queues, kinds, unique_key, group, args, args_path, meta, error_pattern, .. } = &self.0;
        if states.is_some_and(StateSet::is_empty) {
            return invalid("states", "must not be empty", "[]".to_owned());
        }
        for (option, names) in [("queues", queues), ("kinds", kinds)] {
            if names.as_ref().is_some_and(Vec::is_empty) {
                return invalid(option, "must not be empty", "[]".to_owned());
            }
        }
        for queue in queues.iter().flatten() {
            QueueName::new(queue)?;
        }
        for kind in kinds.iter().flatten() {
            Kind::new(kind)?;
        }
        if let Some(key) = unique_key {
            UniqueKey::raw(key).text()?;
        }
        if let Some(group) = group {
            Group::new(Some(group.clone()), None, false)?;
        }
        for (option, text) in [("args_path", args_path), ("error_pattern", error_pattern)] {
            if let Some(text) = text.as_ref().filter(|text| text.contains('\0')) {
                return invalid(option, "must not contain NUL", format!("{text:?}"));
            }
        }
        for (what, value) in [("args", args), ("meta", meta)] {
            if let Some(value) = value {
                check_value(what, "a filter", value, usize::MAX)?;
            }
        }
        for (option, at) in self.times() {
            if !(1..=9_000).contains(&at.year()) {
                return invalid(option, "must be in the years 1 to 9000", at.to_string());
            }
        }
        Ok(())
    }
}

times! {
    /// Selects jobs that were inserted at this time or later.
    created_after,
    /// Selects jobs that were inserted before this time.
    created_before,
    /// Selects jobs whose `scheduled_at` is this time or later.
    scheduled_after,
    /// Selects jobs whose `scheduled_at` is before this time.
    scheduled_before,
    /// Selects jobs whose latest attempt started at this time or later.
    attempted_after,
    /// Selects jobs whose latest attempt started before this time. Running jobs have run since then.
    attempted_before,
    /// Selects jobs that became final at this time or later.
    finalized_after,
    /// Selects jobs that became final before this time.
    finalized_before,
    /// Selects jobs whose last error was recorded at this time or later, whatever became of them since.
    failed_after,
    /// Selects jobs whose last error was recorded before this time.
    failed_before,
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
mod tests;
