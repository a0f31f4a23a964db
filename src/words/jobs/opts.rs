//! Insert options, in three layers: a call's come before a kind's, a kind's before the client's.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::unique::UniquePolicy;
use crate::words::group::GroupBy;
use crate::words::ident::JobId;
use crate::words::place_by::PlaceBy;

/// How often a job is tried that does not say: 25 times, as in the table `job` and in `insert_job`.
pub const DEFAULT_MAX_ATTEMPTS: u16 = 25;
/// What a `smallint` holds.
pub(crate) const MAX_MAX_ATTEMPTS: u16 = 32_767;

/// How a job is inserted. Every option has a default, and an option that is not set here is taken from the
/// next layer: the call's options, then the kind's ([`Job::options`](crate::Job::options)), then
/// the client's ([`ClientBuilder::defaults`](crate::ClientBuilder::defaults)).
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct InsertOptions {
    pub(crate) id: Option<JobId>,
    pub(crate) queue: Option<Cow<'static, str>>,
    pub(crate) priority: Option<i16>,
    pub(crate) max_attempts: Option<u16>,
    pub(crate) start: Option<Start>,
    pub(crate) meta: Map<String, Value>,
    /// A policy that enforces nothing bypasses the policies of the next layers.
    pub(crate) unique: Option<UniquePolicy>,
    pub(crate) group: Option<GroupBy>,
    pub(crate) group_limit: Option<u16>,
    pub(crate) in_order: Option<bool>,
    pub(crate) expiry: Option<Expiry>,
    pub(crate) place: Option<PlaceBy>,
}

/// When a job expires that has not started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Expiry {
    Never,
    At(OffsetDateTime),
    /// Counted from when it is due.
    In(Duration),
}

impl Expiry {
    /// The time, and the time from when the job is due, as the table's functions take them.
    pub(crate) const fn parts(expiry: Option<Self>) -> (Option<OffsetDateTime>, Option<Duration>) {
        match expiry {
            Some(Self::At(at)) => (Some(at), None),
            Some(Self::In(length)) => (None, Some(length)),
            Some(Self::Never) | None => (None, None),
        }
    }
}

/// When a job may start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Start {
    Now,
    At(OffsetDateTime),
    After(Duration),
    WhenReleased,
}

impl InsertOptions {
    /// No option set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The queue that a kind names, as `#[derive(Job)]` writes it: borrowed, so that no job copies it.
    #[doc(hidden)]
    pub fn queue_of_kind(mut self, queue: &'static str) -> Self {
        self.queue = Some(Cow::Borrowed(queue));
        self
    }

    /// Whether no option is set.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Fills options that are not set from the next layer.
    pub(crate) fn or(self, next: &InsertOptions) -> Self {
        let mut meta = self.meta;
        for (name, value) in &next.meta {
            if !meta.contains_key(name) {
                meta.insert(name.clone(), value.clone());
            }
        }
        Self {
            id: self.id.or(next.id),
            queue: self.queue.or_else(|| next.queue.clone()),
            priority: self.priority.or(next.priority),
            max_attempts: self.max_attempts.or(next.max_attempts),
            start: self.start.or(next.start),
            meta,
            unique: self.unique.or_else(|| next.unique.clone()),
            group: self.group.or_else(|| next.group.clone()),
            group_limit: self.group_limit.or(next.group_limit),
            in_order: self.in_order.or(next.in_order),
            expiry: self.expiry.or(next.expiry),
            place: self.place.or_else(|| next.place.clone()),
        }
    }

    fn options_mut(&mut self) -> &mut Self {
        self
    }
}

/// The setters that options, jobs and inserts share. The type has `options_mut`.
macro_rules! insert_setters {
    ($type:ident $(<$life:lifetime>)?) => {
        impl $(<$life>)? $type $(<$life>)? {
            /// The queue. Default: `default`.
            pub fn queue(mut self, queue: impl Into<String>) -> Self {
                self.options_mut().queue = Some(::std::borrow::Cow::Owned(queue.into()));
                self
            }

            /// Higher runs first. Default: 0.
            pub fn priority(mut self, priority: i16) -> Self {
                self.options_mut().priority = Some(priority);
                self
            }

            /// Attempts before the job is discarded, 1 to 32,767. Default: 25.
            pub fn max_attempts(mut self, max_attempts: u16) -> Self {
                self.options_mut().max_attempts = Some(max_attempts);
                self
            }

            /// Runs the job at this time, at the earliest. Default: at once. A time in the past
            /// counts for the order in the queue. Limits: the years 1 to 9000, in UTC.
            pub fn scheduled_at(mut self, at: ::time::OffsetDateTime) -> Self {
                self.options_mut().start = Some($crate::words::opts::Start::At(at));
                self
            }

            /// Runs the job this long after the insert, by the database's clock. Limit: 100 years.
            pub fn scheduled_in(mut self, delay: ::std::time::Duration) -> Self {
                self.options_mut().start = Some($crate::words::opts::Start::After(delay));
                self
            }

            /// Runs the job at once, even if the kind or the client schedules it.
            pub fn scheduled_now(mut self) -> Self {
                self.options_mut().start = Some($crate::words::opts::Start::Now);
                self
            }

            /// Holds the job back in state `pending` until it is [released](crate::Client::release).
            pub fn pending(mut self) -> Self {
                self.options_mut().start = Some($crate::words::opts::Start::WhenReleased);
                self
            }

            /// Adds a member to the job's meta. Layers add up; the call's member wins.
            pub fn meta(
                mut self,
                name: impl Into<String>,
                value: impl Into<::serde_json::Value>,
            ) -> Self {
                self.options_mut().meta.insert(name.into(), value.into());
                self
            }

            /// Makes the job unique by a key of its own. Overrides the key or policy of the kind.
            pub fn unique_key(self, key: $crate::unique::UniqueKey) -> Self {
                self.unique(key.into())
            }

            /// Makes the job unique by a policy. Overrides the key or policy of the kind.
            pub fn unique(mut self, policy: $crate::unique::UniquePolicy) -> Self {
                self.options_mut().unique = Some(policy);
                self
            }

            /// Bypasses uniqueness: the job is never a duplicate, and never the holder of a key.
            pub fn not_unique(self) -> Self {
                self.unique($crate::unique::UniquePolicy::river())
            }

            /// Puts the job in a group of its queue: 1 to 512 bytes, no NUL. The jobs of a group share a
            /// [limit](Self::group_limit) or run [in order](Self::in_order). Overrides the group of the kind.
            pub fn group(mut self, key: impl Into<String>) -> Self {
                self.options_mut().group = Some($crate::words::group::GroupBy::Key(key.into()));
                self
            }

            /// Puts the job in the group whose key the policy makes: the canonical text that a unique key is the hash
            /// of, such as `{"args":{"customer":42}}`. A text longer than 128 bytes is hashed. The policy's other terms
            /// play no part, and a window is an error.
            pub fn group_by(mut self, policy: $crate::unique::UniquePolicy) -> Self {
                self.options_mut().group = Some($crate::words::group::GroupBy::Policy(Box::new(policy)));
                self
            }

            /// Puts the job in no group, even if the kind or the client does.
            pub fn not_grouped(mut self) -> Self {
                self.options_mut().group = Some($crate::words::group::GroupBy::Nothing);
                self
            }

            /// Starts the job only while fewer jobs of its group run than this, 1 to 32,767, over all runners. Default:
            /// no limit but the queue's.
            pub fn group_limit(mut self, limit: u16) -> Self {
                self.options_mut().group_limit = Some(limit);
                self
            }

            /// Runs the jobs of the group one at a time in their order: by priority, `scheduled_at`, then id. A job that
            /// began stays first until it is final, through retries, snoozes and the death of its runner.
            pub fn in_order(mut self) -> Self {
                self.options_mut().in_order = Some(true);
                self
            }

            /// Runs the jobs that the policy calls the same one at a time, and lets one of them wait meanwhile. An insert
            /// that finds one waiting is covered by it: that one starts after the insert has committed, so no change
            /// is lost. A job that comes back to wait, after a failure or a snooze, while another one waits is
            /// discarded.
            ///
            /// It is short for: the policy [by queue](crate::UniquePolicy::by_queue), with scope
            /// [`Queued`](crate::UniqueScope::Queued), [`RunAgain`](crate::OnConflict::RunAgain) and
            /// [`Discard`](crate::OnReentry::Discard) on re-entry; and a [group](Self::group_by) by the same policy
            /// with limit 1. A policy with a window, or with a raw key, is an error.
            pub fn one_at_a_time(self, policy: $crate::unique::UniquePolicy) -> Self {
                let policy = policy
                    .by_queue()
                    .scope($crate::unique::UniqueScope::Queued)
                    .on_conflict($crate::unique::OnConflict::RunAgain)
                    .on_reentry($crate::unique::OnReentry::Discard);
                self.unique(policy.clone()).group_by(policy).group_limit(1)
            }

            /// Discards the job if it has not started by this time, with the code `expired` in its
            /// [`errors`](crate::JobRow::errors). The database's clock decides. An attempt that fails or snoozes was a start:
            /// its retry does not expire. If a duplicate updates the job, or the job covers a duplicate, the later of the two
            /// times counts. Default: the job does not expire.
            pub fn expires_at(mut self, at: time::OffsetDateTime) -> Self {
                self.options_mut().expiry = Some($crate::words::opts::Expiry::At(at));
                self
            }

            /// Discards the job if it has not started within this time from when it is due, as
            /// [`expires_at`](Self::expires_at). At most 100 years.
            pub fn expires_in(mut self, length: std::time::Duration) -> Self {
                self.options_mut().expiry = Some($crate::words::opts::Expiry::In(length));
                self
            }

            /// Lets the job wait for ever, even if its kind or the client has an expiry.
            pub fn never_expires(mut self) -> Self {
                self.options_mut().expiry = Some($crate::words::opts::Expiry::Never);
                self
            }

            /// How [`Places::insert`](crate::Places::insert) finds the place of the job. Inserts by a
            /// [`Client`](crate::Client) ignore it. Default: none, and then the job is inserted with
            /// [`Places::at`](crate::Places::at) or [`Places::of`](crate::Places::of).
            pub fn place(mut self, place: $crate::words::place_by::PlaceBy) -> Self {
                self.options_mut().place = Some(place);
                self
            }

            /// Gives the job this id. An insert that is sent again with the same id, kind, queue and args returns the existing
            /// job. An id that another job has is an error of the database that names both.
            /// Default: a new UUIDv7.
            pub fn id(mut self, id: impl Into<$crate::words::ident::JobId>) -> Self {
                self.options_mut().id = Some(id.into());
                self
            }
        }
    };
}
pub(crate) use insert_setters;

insert_setters!(InsertOptions);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_options_come_before_kind_options_before_client_defaults() {
        let call = InsertOptions::new().priority(3).meta("a", 1);
        let kind = InsertOptions::new().priority(2).queue("kind").meta("a", 2);
        let client = InsertOptions::new().priority(1).queue("client").max_attempts(7).meta("b", 3);
        let merged = call.or(&kind).or(&client);
        assert_eq!(merged.priority, Some(3));
        assert_eq!(merged.queue.as_deref(), Some("kind"));
        assert_eq!(merged.max_attempts, Some(7));
        assert_eq!(Value::Object(merged.meta), serde_json::json!({"a": 1, "b": 3}));
    }
}
