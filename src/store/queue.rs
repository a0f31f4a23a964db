//! Queues: their settings.

use serde_json::Value;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Row};

use super::{Store, query};
use crate::error::Result;
use crate::words::ident::QueueName;
use crate::words::queue::QueueSettings;

/// A call that changes a queue or a group. Its arguments are members of the document `$1`, which is the change as it is logged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueCall {
    /// The function, which is the verb in the log of changes.
    pub(crate) verb: &'static str,
    arguments: &'static str,
}

impl QueueCall {
    pub(crate) const PAUSE: Self =
        Self { verb: "pause_queue", arguments: "$1 ->> 'queue', $1 ->> 'reason', $1 ->> 'actor'" };
    pub(crate) const RESUME: Self = Self { verb: "resume_queue", arguments: "$1 ->> 'queue'" };
    pub(crate) const HOLD: Self =
        Self { verb: "hold_queue", arguments: "$1 ->> 'queue', _read_length($1 -> 'seconds')" };
    pub(crate) const SET: Self = Self { verb: "set_queue", arguments: "$1 ->> 'queue', $1 - 'queue' - 'actor'" };
    pub(crate) const HOLD_GROUP: Self =
        Self { verb: "hold_group", arguments: "$1 ->> 'queue', $1 ->> 'group', _read_length($1 -> 'seconds')" };
    pub(crate) const RESUME_GROUP: Self = Self { verb: "resume_group", arguments: "$1 ->> 'queue', $1 ->> 'group'" };
}

impl Store<'_> {
    /// Changes a queue or a group, and returns whether the function answered with a row.
    pub(crate) async fn change_queue(self, call: QueueCall, document: &Value) -> Result<bool> {
        let schema = self.statements.schema().quoted();
        let arguments =
            call.arguments.replace("$1", "$1::jsonb").replace("_read_length", &format!("{schema}._read_length"));
        // Safe to splice: a schema name is checked against an alphabet without quotes.
        let calling = AssertSqlSafe(format!("SELECT FROM {schema}.{}({arguments})", call.verb));
        Ok(sqlx::query(calling).bind(Json(document)).execute(self.connection).await?.rows_affected() > 0)
    }

    /// The settings of a queue.
    pub(crate) async fn queue_settings(self, name: &QueueName) -> Result<QueueSettings> {
        let row = query(&self.statements.queue_settings).bind(name.as_str()).fetch_one(self.connection).await?;
        Ok(row.try_get::<Json<_>, _>(0)?.0)
    }

    /// Deletes the settings of a queue, and returns whether it had any.
    pub(crate) async fn remove_queue(self, name: &QueueName) -> Result<bool> {
        Ok(query(&self.statements.remove_queue).bind(name.as_str()).execute(self.connection).await?.rows_affected() > 0)
    }
}
