//! Registered kinds: the defaults that the database knows of a kind, and a cache of them for a process that inserts jobs of many
//! kinds by name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::sync::Mutex;
#[cfg(doc)]
use uniqueue::Error;
use uniqueue::period::seconds;
use uniqueue::{
    Call, Client, DEFAULT_MAX_ATTEMPTS, Kind, NewJob, OnConflict, PlaceBy, QueueName, Result, RetryPolicy,
    UniquePolicy, format_duration, stored_time,
};

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

const KINDS: &str = include_str!("sql/kinds.sql");

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

    /// The values that inserts take from it, each with its name, in the order in which the command and the dashboard show them.
    /// Without a registered value the default of every kind, or no row where there is none.
    #[must_use]
    pub fn taken(&self) -> Vec<(&'static str, String)> {
        let after = |length: Duration, event: &str| format!("{} after {event}", format_duration(length));
        let rows = [
            ("queue", Some(self.queue.as_ref().map_or_else(|| "default".to_owned(), ToString::to_string))),
            ("priority", Some(self.priority.unwrap_or(0).to_string())),
            ("attempts", Some(self.max_attempts.unwrap_or(DEFAULT_MAX_ATTEMPTS).to_string())),
            ("due", self.delay.map(|delay| after(delay, "the insert"))),
            ("expires", self.expires_in.map(|length| after(length, "it is due, if it has not started"))),
            ("timeout", self.timeout.map(format_duration)),
            ("backoff", self.backoff.as_ref().map(ToString::to_string)),
            ("unique", Some(self.unique_in_words().unwrap_or_else(|| "no".to_owned()))),
            ("group", Some(self.group_in_words().unwrap_or_else(|| "none".to_owned()))),
            ("place by", self.place.as_ref().map(|place| place.as_str().to_owned())),
        ];
        rows.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
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

/// How long an answer of the database counts.
const FRESH: Duration = Duration::from_secs(2);

/// The kinds by their names, and when they were asked for.
type Known = Option<(Instant, Arc<HashMap<String, Value>>)>;

/// The registered kinds, read from the database at most every 2 s: for processes that insert jobs by name for others, and
/// take the options that are left out from the kind. Without a cache, [`Client::fill_in`] asks the database for each job.
///
/// ```no_run
/// # use serde_json::json;
/// # use uniqueue::{Client, NewJob};
/// # use uniqueue_admin::KindCache;
/// # async fn run(client: Client) -> uniqueue::Result<()> {
/// let cache = KindCache::new(client.clone());
/// let job = cache.fill_in(NewJob::new("email.send", &json!({"user_id": 42}))).await?;
/// client.insert(job).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct KindCache {
    client: Client,
    known: Mutex<Known>,
}

impl KindCache {
    /// A cache for the kinds of this client's schema. Nothing is read yet.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// Whether a kind is registered.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database). The next call reads anew.
    pub async fn knows(&self, kind: &str) -> Result<bool> {
        Ok(self.kinds().await?.contains_key(kind))
    }

    /// The job with the options of its registered kind, where the job leaves them out. A job of another kind stays as it is.
    ///
    /// # Errors
    ///
    /// Those of [`Client::fill_in`].
    pub async fn fill_in(&self, job: NewJob) -> Result<NewJob> {
        match self.kinds().await?.get(job.kind()) {
            Some(kind) => job.or_registered(kind),
            None => Ok(job),
        }
    }

    /// The documents of the kinds by their names. Calls that come during a read wait for its answer.
    async fn kinds(&self) -> Result<Arc<HashMap<String, Value>>> {
        let mut known = self.known.lock().await;
        if let Some((_, kinds)) = known.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(Arc::clone(kinds));
        }
        let asked_at = Instant::now();
        let rows: Vec<Value> = ask(&self.client, KINDS, arguments(json!({}))).await?;
        let kinds: Arc<HashMap<_, _>> =
            Arc::new(rows.into_iter().filter_map(|row| Some((row["name"].as_str()?.to_owned(), row))).collect());
        *known = Some((asked_at, Arc::clone(&kinds)));
        Ok(kinds)
    }
}
