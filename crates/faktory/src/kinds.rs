//! The registered kinds, which give inserts what they leave out.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::sleep;
use uniqueue::{Client, KindRow, Result};

/// How long a change of a registered kind can stay unseen.
const READ_EVERY: Duration = Duration::from_secs(2);

/// The kinds as they were read last.
#[derive(Debug, Default)]
pub(crate) struct Kinds(RwLock<Arc<HashMap<String, KindRow>>>);

impl Kinds {
    /// The registered kinds by their names.
    pub(crate) fn all(&self) -> Arc<HashMap<String, KindRow>> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads them.
    pub(crate) async fn read(&self, client: &Client) -> Result<()> {
        let rows = client.kinds().list().await?;
        let kinds = Arc::new(rows.into_iter().map(|row| (row.name.to_string(), row)).collect());
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = kinds;
        Ok(())
    }

    /// Reads them again and again.
    pub(crate) async fn watch(&self, client: &Client) {
        loop {
            sleep(READ_EVERY).await;
            if let Err(error) = self.read(client).await {
                tracing::debug!(%error, "cannot read the registered kinds, trying again");
            }
        }
    }
}
