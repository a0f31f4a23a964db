//! The history of jobs.

use serde_json::Value;
use uuid::Uuid;

use super::{Store, query, settle};
use crate::error::Result;

impl Store<'_> {
    /// Writes a batch of counts. A batch that was written before is not written again.
    pub(crate) async fn write_history(self, writer: Uuid, batch: i64, minutes: &Value) -> Result<()> {
        // Where the role's isolation level is above READ COMMITTED, a row that another process wrote meanwhile is an error.
        let Self { connection, statements } = self;
        settle!(true, connection, statements.over(connection).send_history(writer, batch, minutes));
        Ok(())
    }

    async fn send_history(self, writer: Uuid, batch: i64, minutes: &Value) -> Result<()> {
        query(&self.statements.write_history).bind(writer).bind(batch).bind(minutes).execute(self.connection).await?;
        Ok(())
    }
}
