//! Whether this library can work with the schema.

use super::time_limit;
use crate::client::Client;
use crate::error::{AnswerFuture, Error, Result};
use crate::store::{self, SchemaVersion};

impl Client {
    /// Checks that this library can work with the schema: it is at the version that the library needs, or at a newer one that a
    /// library of this version may use. In the second case the client logs one warning.
    ///
    /// # Errors
    ///
    /// [`Error::NotMigrated`], [`Error::NewerSchema`], [`Error::IncompatibleSchema`] or [`Error::PlaceMoved`].
    pub async fn check_schema(&self) -> Result<()> {
        let version = self.schema_version().await?;
        version.check(self.schema())?;
        if version.is_newer() {
            let (schema, found, known) = (self.schema(), version.found, store::LATEST_VERSION);
            let warn =
                || tracing::warn!(%schema, found, known, "the schema is newer than this uniqueue, which may use it");
            self.inner.newer_schema.call_once(warn);
        }
        Ok(())
    }

    /// Passes an answer on. Where the server does not know what a statement named, the schema may say where the queue has
    /// moved. A transaction of the caller's may have the only connection of the pool, so its error is passed on as it is.
    pub(in crate::client) async fn or_moved<T>(&self, is_callers: bool, answer: Result<T>) -> Result<T> {
        match answer {
            Err(error) if !is_callers && error.is_of_session() && !error.is_of_server() => {
                match self.check_schema().await {
                    Err(moved @ Error::PlaceMoved { .. }) => Err(moved),
                    _ => Err(error),
                }
            }
            answer => answer,
        }
    }

    fn schema_version(&self) -> AnswerFuture<'_, SchemaVersion> {
        Box::pin(async {
            let mut connection = self.connection().await?;
            let asking = self.store(&mut connection).schema_version();
            let found = time_limit::within(time_limit::QUERY_TIMEOUT, asking).await;
            connection.settle(found)
        })
    }
}
