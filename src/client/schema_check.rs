//! Whether the schema has the version that this library needs.

use super::{Client, time_limit};
use crate::error::{AnswerFuture, Error, Result};
use crate::store;

impl Client {
    /// Checks that the schema is at the version that this library needs.
    ///
    /// # Errors
    ///
    /// [`Error::NotMigrated`], [`Error::NewerSchema`] or [`Error::IncompatibleSchema`].
    pub async fn check_schema(&self) -> Result<()> {
        self.judge_version(self.schema_version().await?)
    }

    fn schema_version(&self) -> AnswerFuture<'_, i32> {
        Box::pin(async {
            let mut connection = self.connection().await?;
            let asking = store::schema_version(&mut connection, self.statements());
            let found = time_limit::within(time_limit::QUERY_TIMEOUT, asking).await;
            connection.settle(found)
        })
    }

    /// Whether this library can work at a version of the schema.
    pub(crate) fn judge_version(&self, found: i32) -> Result<()> {
        let schema = self.schema().clone();
        let known = store::LATEST_VERSION;
        match found {
            found if found < known => Err(Error::NotMigrated { schema, found, needed: known }),
            found if found > known => Err(Error::NewerSchema { schema, found, known }),
            _ => Ok(()),
        }
    }
}
