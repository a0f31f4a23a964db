//! A cache of the registered kinds, for a process that inserts jobs of many kinds by name.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Mutex;
use uniqueue::{Client, Result};

use crate::kinds::KINDS;
use crate::statement::{arguments, ask};

/// How long an answer of the database counts.
const FRESH: Duration = Duration::from_secs(2);

/// The kinds by their names, and when they were asked for.
type Known = Option<(Instant, Arc<HashMap<String, Value>>)>;

/// The registered kinds, read from the database at most every 2 s: for processes that insert jobs by name for others, and
/// take the options that are left out from the kind (`NewJob::or_registered`).
///
/// ```no_run
/// # use serde_json::json;
/// # use uniqueue::{Client, NewJob};
/// # use uniqueue_admin::KindCache;
/// # async fn run(client: Client) -> uniqueue::Result<()> {
/// let cache = KindCache::new(client.clone());
/// let job = NewJob::new("email.send", &json!({"user_id": 42}));
/// let job = match cache.kinds().await?.get("email.send") {
///     Some(kind) => job.or_registered(kind)?,
///     None => job,
/// };
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

    /// The documents of the registered kinds by their names. Calls that come during a read wait for its answer.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database). The next call reads anew.
    pub async fn kinds(&self) -> Result<Arc<HashMap<String, Value>>> {
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
