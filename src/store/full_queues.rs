//! Queues with a limit of waiting jobs, for a diagnosis.

use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use super::health::rows;
use super::{Statements, query};
use crate::error::Result;

/// A queue with a limit of waiting jobs that has as many, or whose limit is not enforced.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct FullQueue {
    pub(crate) queue: String,
    pub(crate) max_waiting: i64,
    pub(crate) waiting: i64,
    pub(crate) is_enforced: bool,
}

pub(crate) async fn full_queues(connection: &mut PgConnection, statements: &Statements) -> Result<Vec<FullQueue>> {
    rows(query(&statements.health_full).bind(statements.schema().quoted()), connection).await
}
