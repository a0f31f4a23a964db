//! Registered kinds: the defaults that the database knows of a kind.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
#[cfg(doc)]
use uniqueue::Error;
use uniqueue::period::seconds;
use uniqueue::{Call, Kind, OnConflict, PlaceBy, QueueName, Result, RetryPolicy, UniquePolicy, stored_time};

use crate::Admin;
use crate::statement::{arguments, ask, change_to, collect};

impl<'a> Admin<'a> {
    /// Lists the registered kinds, by name.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn kinds(self) -> Call<'a, Vec<KindRow>> {
        ask(self.client, KINDS, arguments(json!({})))
    }

    /// Finds a registered kind.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn kind(self, name: &str) -> Call<'a, Option<KindRow>> {
        collect(self.client, KINDS, arguments(json!({ "name": name })), |mut rows| rows.pop())
    }

    /// Forgets what was registered of a kind. Its jobs stay. The next start of a runner with a worker for it registers it
    /// again. Returns whether it was registered.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn remove_kind(self, name: &str) -> Call<'a, bool> {
        #[derive(Deserialize)]
        struct Removed {
            removed: bool,
        }
        let (subject, asked) = (json!({ "kind": name }), json!({ "name": name }));
        change_to(self.client, "remove_kind", subject, REMOVE, asked, |rows: Vec<Removed>| {
            rows.iter().any(|row| row.removed)
        })
    }
}

pub(crate) const KINDS: &str = include_str!("sql/kinds.sql");

const REMOVE: &str = "SELECT /* schema */remove_kind($1::jsonb ->> 'name') AS removed";

/// A registered kind as it is stored: what an insert by SQL, by the command or by the dashboard takes from it. Listed by
/// [`Admin::kinds`].
#[derive(Clone, Debug, Deserialize, Serialize)]
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
    #[serde(deserialize_with = "seconds::option::deserialize")]
    pub delay: Option<Duration>,
    /// How long a job may run, for workers that do not know better. `None`: as long as it takes.
    #[serde(deserialize_with = "seconds::option::deserialize")]
    pub timeout: Option<Duration>,
    /// How long a failed job waits for its retry, for workers without a retry policy of their own: `first`, `factor`,
    /// `max_interval` and `jitter` of a [`RetryPolicy`](uniqueue::RetryPolicy), as `register_kind` takes them. `None`:
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
    #[serde(deserialize_with = "seconds::option::deserialize")]
    pub expires_in: Option<Duration>,
    /// The value that decides the place of its jobs ([`Places::insert`](uniqueue::Places::insert)). `None`: none is declared.
    pub place: Option<PlaceBy>,
    /// When it was last registered.
    #[serde(with = "stored_time")]
    pub registered_at: OffsetDateTime,
    /// The process that registered it last: the name of a runner, or of a client's connection.
    pub registered_by: String,
    /// When a registration last changed what inserts take from it.
    #[serde(with = "stored_time")]
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
