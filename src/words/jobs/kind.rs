//! Registered kinds: the defaults that the database knows of a kind.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::period;
use crate::unique::{OnConflict, UniquePolicy};
use crate::words::group::GroupBy;
use crate::words::ident::{Kind, QueueName};
use crate::words::job::NewJob;
use crate::words::opts::{Expiry, InsertOptions, Start};
use crate::words::place_by::PlaceBy;

/// What an insert takes from a registered kind: its row, as a document.
#[derive(Deserialize)]
struct Registered {
    queue: Option<String>,
    priority: Option<i16>,
    max_attempts: Option<u16>,
    #[serde(deserialize_with = "period::seconds::option::deserialize")]
    delay: Option<Duration>,
    unique_policy: Option<Value>,
    group_policy: Option<Value>,
    group_limit: Option<u16>,
    in_order: bool,
    #[serde(deserialize_with = "period::seconds::option::deserialize")]
    expires_in: Option<Duration>,
    place: Option<PlaceBy>,
}

impl NewJob {
    /// The job with what the document of its registered kind says, wherever the job says nothing itself.
    #[doc(hidden)]
    pub fn or_registered(mut self, kind: &Value) -> Result<Self> {
        let read = |document: &Value| UniquePolicy::from_json_with_default(document, OnConflict::Ignore);
        let kind = Registered::deserialize(kind).map_err(|error| {
            let (what, problem) = ("definition", error.to_string());
            Error::InvalidJson { what, kind: self.kind().to_owned(), problem }
        })?;
        let mut defaults = InsertOptions::new();
        defaults.queue = kind.queue.map(Cow::Owned);
        defaults.priority = kind.priority;
        defaults.max_attempts = kind.max_attempts;
        defaults.start = kind.delay.map(Start::After);
        defaults.unique = kind.unique_policy.as_ref().map(read).transpose()?;
        defaults.group =
            kind.group_policy.as_ref().map(read).transpose()?.map(|policy| GroupBy::Policy(Box::new(policy)));
        defaults.group_limit = kind.group_limit;
        defaults.in_order = kind.in_order.then_some(true);
        defaults.expiry = kind.expires_in.map(Expiry::In);
        defaults.place = kind.place;
        self.options = self.options.or(&defaults);
        Ok(self)
    }
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

    fn row(definition: &KindDefinition) -> Value {
        let seconds =
            |length: &Option<String>| length.as_deref().map(|text| period::parse(text).unwrap().as_secs_f64());
        let mut row = json!(definition);
        row["delay"] = json!(seconds(&definition.delay));
        row["expires_in"] = json!(seconds(&definition.expires_in));
        row["in_order"] = json!(definition.in_order.unwrap_or_default());
        row
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
            let filled = NewJob::new("k", &()).or_registered(&row(&definition)).unwrap();
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
        let job = NewJob::new("k", &()).queue("own").not_unique().group("g").or_registered(&kind).unwrap();
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
