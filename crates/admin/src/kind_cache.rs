//! A cache of the registered kinds, for a process that inserts jobs of many kinds by name.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Mutex;
use uniqueue::{Client, NewJob, Result};

use crate::kinds::KINDS;
use crate::statement::{arguments, ask};

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

impl fmt::Debug for KindCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KindCache").field("client", &self.client).finish_non_exhaustive()
    }
}
