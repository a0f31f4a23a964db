//! The kinds that are registered in the database.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uniqueue::{Client, KindRow, Result};

/// How long the answer of the database counts.
const FRESH: Duration = Duration::from_secs(5);

/// The registered kinds by their names.
type Kinds = HashMap<String, Arc<KindRow>>;

/// The registered kinds, as they were known last.
#[derive(Default)]
pub(crate) struct KnownKinds(Mutex<Option<(Instant, Arc<Kinds>)>>);

impl KnownKinds {
    /// These kinds. `None`: a kind is not registered.
    pub(crate) async fn find(&self, client: &Client, names: &[&str]) -> Result<Vec<Option<Arc<KindRow>>>> {
        let kinds = self.all(client).await?;
        Ok(names.iter().map(|name| kinds.get(*name).cloned()).collect())
    }

    async fn all(&self, client: &Client) -> Result<Arc<Kinds>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, kinds)) = known.filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(kinds);
        }
        let asked_at = Instant::now();
        let rows = client.kinds().list().await?;
        let kinds: Kinds = rows.into_iter().map(|row| (row.name.to_string(), Arc::new(row))).collect();
        let kinds = Arc::new(kinds);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((asked_at, Arc::clone(&kinds)));
        Ok(kinds)
    }
}
