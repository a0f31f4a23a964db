//! Registered kinds: the defaults that the database knows of a kind.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::error::{Error, Result};
use crate::period;
use crate::unique::{OnConflict, UniquePolicy};
use crate::words::group::GroupBy;
use crate::words::ident::{Kind, QueueName};
use crate::words::job::NewJob;
use crate::words::opts::{Expiry, InsertOptions, Start};
use crate::words::place_by::PlaceBy;
use crate::words::retry::RetryPolicy;

/// A registered kind as it is stored: what an insert by SQL, by the command or by the dashboard takes from it. Listed by
/// [`Kinds::list`](crate::Kinds::list).
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct KindRow {
    /// The kind.
    pub name: Kind,
    /// The queue of its jobs. `None`: `default`.
    pub queue: Option<QueueName>,
    /// Their priority. `None`: 0.
    pub priority: Option<i16>,
    /// Their number of attempts. `None`: 25.
    pub max_attempts: Option<u16>,
    /// How long after the insert they are due. `None`: at once.
    pub delay: Option<Duration>,
    /// How long a job may run, for workers that do not know better. `None`: as long as it takes.
    pub timeout: Option<Duration>,
    /// How long a failed job waits for its retry, for workers without a retry policy of their own: `first`, `factor`,
    /// `max_interval` and `jitter` of a [`RetryPolicy`](crate::RetryPolicy), as `register_kind` takes them. `None`:
    /// the default policy.
    pub backoff: Option<Value>,
    /// The policy of their unique keys, as `insert_job` takes it. `None`: they are not unique.
    pub unique_policy: Option<Value>,
    /// The policy of the keys of their groups, as `insert_job` takes it. `None`: they have no group.
    pub group_policy: Option<Value>,
    /// How many jobs of a group may run at once. `None`: no limit of the kind.
    pub group_limit: Option<u16>,
    /// Whether the jobs of a group run one at a time in their order.
    pub in_order: bool,
    /// How long after they are due its jobs expire, if they have not started. `None`: they do not expire.
    pub expires_in: Option<Duration>,
    /// The value that decides the place of its jobs ([`Places::insert`](crate::Places::insert)). `None`: none is declared.
    pub place: Option<PlaceBy>,
    /// When it was last registered.
    #[serde(with = "time::serde::rfc3339")]
    pub registered_at: OffsetDateTime,
    /// The process that registered it last: the name of a runner, or of a client's connection.
    pub registered_by: String,
    /// When a registration last changed what inserts take from it.
    #[serde(with = "time::serde::rfc3339")]
    pub changed_at: OffsetDateTime,
}

impl KindRow {
    /// Its unique policy. `None`: its jobs are not unique.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPolicy`] or [`Error::InvalidPeriod`] where the document was written by hand and cannot be read.
    pub fn policy(&self) -> Result<Option<UniquePolicy>> {
        self.unique_policy.as_ref().map(read).transpose()
    }

    /// The policy that makes the keys of its groups. `None`: its jobs have no group.
    ///
    /// # Errors
    ///
    /// As [`policy`](Self::policy).
    pub fn groups(&self) -> Result<Option<UniquePolicy>> {
        self.group_policy.as_ref().map(read).transpose()
    }

    /// Its unique policy in words, or why it cannot be read. `None`: its jobs are not unique.
    #[must_use]
    pub fn unique_in_words(&self) -> Option<String> {
        in_words(self.policy())
    }

    /// The group of its jobs in words. `None`: they have no group. What a group's policy says of claims plays no part.
    #[must_use]
    pub fn group_in_words(&self) -> Option<String> {
        if self.group_policy.is_none() && self.group_limit.is_none() && !self.in_order {
            return None;
        }
        let same = in_words(self.groups()).unwrap_or_else(|| "as the insert says".to_owned());
        let same = same.split("; ").next().unwrap_or_default();
        Some(match (self.in_order, self.group_limit) {
            (true, _) => format!("{same}; in order"),
            (false, Some(limit)) => format!("{same}; at most {limit} at once"),
            (false, None) => same.to_owned(),
        })
    }

    /// How long its failed jobs wait for their retry: its backoff, or the default policy.
    pub fn retry_policy(&self) -> RetryPolicy {
        self.backoff.as_ref().map_or_else(RetryPolicy::default, RetryPolicy::of_document)
    }

    /// The job with what the kind says, wherever the job says nothing itself.
    /// [`not_unique`](NewJob::not_unique) and [`not_grouped`](NewJob::not_grouped) give a default up.
    ///
    /// # Errors
    ///
    /// As [`policy`](Self::policy).
    pub fn fill_in(&self, mut job: NewJob) -> Result<NewJob> {
        job.options = job.options.or(&self.defaults()?);
        Ok(job)
    }

    /// The options of inserts of the kind.
    pub(crate) fn defaults(&self) -> Result<InsertOptions> {
        let mut defaults = InsertOptions::new();
        defaults.queue = self.queue.as_ref().map(|queue| queue.to_string().into());
        defaults.priority = self.priority;
        defaults.max_attempts = self.max_attempts;
        defaults.start = self.delay.map(Start::After);
        defaults.unique = self.policy()?;
        defaults.group = self.groups()?.map(|policy| GroupBy::Policy(Box::new(policy)));
        defaults.group_limit = self.group_limit;
        defaults.in_order = self.in_order.then_some(true);
        defaults.expiry = self.expires_in.map(Expiry::In);
        defaults.place = self.place.clone();
        Ok(defaults)
    }
}

/// A policy in words. `None`: there is none.
fn in_words(policy: Result<Option<UniquePolicy>>) -> Option<String> {
    match policy {
        Ok(policy) => policy.map(|policy| policy.in_words()),
        Err(error) => Some(error.to_string()),
    }
}

fn read(document: &Value) -> Result<UniquePolicy> {
    UniquePolicy::from_json_with_default(document, OnConflict::Ignore)
}

/// A kind as a process registers it and the database reads it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct KindDefinition {
    pub(crate) name: Kind,
    queue: Option<QueueName>,
    priority: Option<i16>,
    max_attempts: Option<u16>,
    delay: Option<String>,
    timeout: Option<String>,
    backoff: Option<Value>,
    unique_policy: Value,
    group_policy: Value,
    group_limit: Option<u16>,
    in_order: Option<bool>,
    expires_in: Option<String>,
    place: Option<PlaceBy>,
}

impl KindDefinition {
    /// The definition of a kind whose inserts have these options.
    pub(crate) fn new(kind: &str, options: InsertOptions) -> Result<Self> {
        let InsertOptions {
            id: _,
            queue,
            priority,
            max_attempts,
            start,
            meta: _,
            unique,
            group,
            group_limit,
            in_order,
            expiry,
            place,
        } = options;
        let delay = match start {
            Some(Start::After(delay)) => Some(period::write(delay)),
            _ => None,
        };
        let unique_policy = unique.map_or(Ok(Value::Null), |policy| policy.to_ojs())?;
        let group_policy = match group {
            Some(GroupBy::Policy(policy)) if policy.needs_clock() => {
                return Err(Error::InvalidPolicy { field: "window", problem: "a group has none".to_owned() });
            }
            Some(GroupBy::Policy(policy)) => policy.to_ojs()?,
            Some(GroupBy::Key(key)) => json!({ "key": key }),
            Some(GroupBy::Nothing) | None => Value::Null,
        };
        Ok(Self {
            name: Kind::new(kind)?,
            queue: queue.as_deref().map(QueueName::new).transpose()?,
            priority,
            max_attempts,
            delay,
            timeout: None,
            backoff: None,
            unique_policy,
            group_policy,
            group_limit,
            in_order,
            expires_in: match expiry {
                Some(Expiry::In(length)) => Some(period::write(length)),
                _ => None,
            },
            place,
        })
    }

    /// With the timeout and the retry policy of a worker. `None`: the registered values stay.
    pub(crate) fn worked(mut self, timeout: Option<Duration>, backoff: Option<Value>) -> Self {
        (self.timeout, self.backoff) = (timeout.map(limit), backoff);
        self
    }
}

/// A timeout as the database reads it: 0 is no limit.
fn limit(timeout: Duration) -> String {
    period::write(if timeout > period::LONGEST { Duration::ZERO } else { timeout })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::unique::{UniqueKey, UniqueScope};

    fn row(definition: &KindDefinition) -> KindRow {
        let document = |value: &Value| Some(value.clone()).filter(|value| !value.is_null());
        KindRow {
            name: definition.name.clone(),
            queue: definition.queue.clone(),
            priority: definition.priority,
            max_attempts: definition.max_attempts,
            delay: definition.delay.as_deref().map(|delay| period::parse(delay).unwrap()),
            timeout: None,
            backoff: None,
            unique_policy: document(&definition.unique_policy),
            group_policy: document(&definition.group_policy),
            group_limit: definition.group_limit,
            in_order: definition.in_order.unwrap_or_default(),
            expires_in: definition.expires_in.as_deref().map(|length| period::parse(length).unwrap()),
            place: definition.place.clone(),
            registered_at: OffsetDateTime::UNIX_EPOCH,
            registered_by: String::new(),
            changed_at: OffsetDateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn what_a_kind_says_reads_back_from_its_row() {
        let key = UniqueKey::raw("k").scope(UniqueScope::Exists).until_start();
        for options in [
            InsertOptions::new(),
            InsertOptions::new().queue("q").priority(-3).max_attempts(2).scheduled_in(Duration::from_millis(1_500)),
            InsertOptions::new().unique(UniquePolicy::river().by_args().window(Duration::from_secs(60))),
            InsertOptions::new().unique(UniquePolicy::from(key)).group_by(UniquePolicy::new().by_arg_fields(["a"])),
            InsertOptions::new().one_at_a_time(UniquePolicy::new().by_args()),
            InsertOptions::new().group_by(UniquePolicy::new().key("g")).in_order(),
            InsertOptions::new().expires_in(Duration::from_secs(90)),
            InsertOptions::new().place(PlaceBy::arg("tenant")),
        ] {
            let definition = KindDefinition::new("k", options.clone()).unwrap();
            let filled = row(&definition).fill_in(NewJob::new("k", &())).unwrap();
            assert_eq!(filled.options, options);
        }
    }

    #[test]
    fn a_job_that_says_something_itself_keeps_it() {
        let kind = InsertOptions::new()
            .queue("of kind")
            .priority(1)
            .unique(UniquePolicy::new())
            .group_by(UniquePolicy::new())
            .group_limit(2);
        let kind = row(&KindDefinition::new("k", kind).unwrap());
        let job = kind.fill_in(NewJob::new("k", &()).queue("own").not_unique().group("g")).unwrap();
        assert_eq!(job.queue_name(), Some("own"));
        assert_eq!(job.options.priority, Some(1));
        assert!(job.options.unique.is_some_and(|policy| !policy.is_enforced()));
        assert_eq!(job.options.group, Some(GroupBy::Key("g".to_owned())));
        assert_eq!(job.options.group_limit, Some(2));
    }

    #[test]
    fn what_cannot_be_registered_is_an_error() {
        let define = |options| KindDefinition::new("k", options);
        assert!(define(InsertOptions::new().unique(UniquePolicy::new().key(""))).is_err());
        assert!(define(InsertOptions::new().queue("")).is_err());
        let windowed = UniquePolicy::new().window(Duration::from_secs(60));
        assert!(define(InsertOptions::new().group_by(windowed)).is_err());
        let none = define(InsertOptions::new().unique(UniquePolicy::river()).not_grouped()).unwrap();
        assert_eq!((none.unique_policy, none.group_policy), (Value::Null, Value::Null));
        let timeout = |timeout| {
            KindDefinition::new("k", InsertOptions::new()).unwrap().worked(Some(timeout), None).timeout.unwrap()
        };
        assert_eq!(timeout(Duration::from_millis(1_500)), "PT1.5S");
        assert_eq!(timeout(Duration::MAX), "PT0S");
        assert_eq!(json!(define(InsertOptions::new()).unwrap())["in_order"], Value::Null);
    }
}
