//! The audit of suppressed duplicates: the folding of notes into counters.

use sqlx::{PgConnection, Row};

use super::{Statements, query};
use crate::error::Result;

/// Folds up to `limit` notes into the counters, and deletes up to as many old counters. Returns the number of notes
/// folded.
pub(crate) async fn fold_duplicates(connection: &mut PgConnection, statements: &Statements, limit: i32) -> Result<i32> {
    let row = query(&statements.fold_duplicates).persistent(false).bind(limit).fetch_one(connection).await?;
    Ok(row.try_get("folded")?)
}
