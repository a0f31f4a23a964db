//! What an insert would meet.

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::row::Stored;
use super::{Statements, query};
use crate::error::Result;
use crate::ident::JobId;
use crate::unique::{Duplicate, StateSet};

/// What an insert with a key and an id would meet.
#[derive(Debug)]
pub(crate) struct Met {
    /// The job that claims the key.
    pub(crate) holder: Option<Duplicate>,
    /// Whether a job has the id already.
    pub(crate) id_is_there: bool,
}

/// Reads the holder of a key, and whether a job has the id. Locks and writes nothing.
pub(crate) async fn explain_unique(
    connection: &mut PgConnection,
    statements: &Statements,
    key: Option<&str>,
    id: JobId,
) -> Result<Met> {
    let row = query(&statements.explain_unique).bind(key).bind(id.as_uuid()).fetch_one(connection).await?;
    let id_is_there = row.try_get("id_is_there")?;
    let (Some(key), Some(holder)) = (key, row.try_get::<Option<Uuid>, _>("id")?) else {
        return Ok(Met { holder: None, id_is_there });
    };
    let age = row.try_get::<Stored, _>("answered_at")?.0 - row.try_get::<Stored, _>("created_at")?.0;
    let holder = Duplicate {
        unique_key: key.to_owned(),
        holder: holder.into(),
        holder_state: row.try_get::<&str, _>("state")?.parse()?,
        // Negative only when created_at was moved by hand.
        holder_age: age.try_into().unwrap_or_default(),
        claims_in: StateSet::from_bits(row.try_get("unique_states")?).unwrap_or_default(),
        until_start: row.try_get("until_start")?,
        unique_until: row.try_get::<Option<Stored>, _>("unique_until")?.map(|at| at.0),
    };
    Ok(Met { holder: Some(holder), id_is_there })
}
