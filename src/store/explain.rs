//! The effect that an insert would have.

use serde_json::value::RawValue;
use sqlx::Row;
use time::OffsetDateTime;
use uuid::Uuid;

use super::insert::{Columns, NewRow};
use super::row::Stored;
use super::{Store, query};
use crate::error::Result;
use crate::unique::{Duplicate, InsertOutcome, StateSet};
use crate::words::ident::JobId;

/// The effect that an insert of a row would have.
#[derive(Debug)]
pub(crate) struct Explained {
    pub(crate) outcome: InsertOutcome,
    pub(crate) replaced: Option<JobId>,
    /// The job that claims the key.
    pub(crate) holder: Option<Duplicate>,
    /// The args that an update would give to the holder.
    pub(crate) new_args: Option<Box<RawValue>>,
    pub(crate) new_scheduled_at: Option<OffsetDateTime>,
}

impl Store<'_> {
    /// Asks what an insert would do with a row. Locks and writes nothing.
    pub(crate) async fn explain_unique(self, given: &NewRow) -> Result<Explained> {
        let key = given.key();
        let row =
            Columns::of_one(query(&self.statements.explain_unique), given).any(true).fetch_one(self.connection).await?;
        let time = |column| Ok::<_, sqlx::Error>(row.try_get::<Option<Stored>, _>(column)?.map(|at| at.0));
        let holder = match (key, row.try_get::<Option<Uuid>, _>("id")?) {
            (Some(key), Some(holder)) => {
                let age = row.try_get::<Stored, _>("answered_at")?.0 - row.try_get::<Stored, _>("created_at")?.0;
                Some(Duplicate {
                    unique_key: key.to_owned(),
                    holder: holder.into(),
                    holder_state: row.try_get::<&str, _>("state")?.parse()?,
                    // Negative only when created_at was moved by hand.
                    holder_age: age.try_into().unwrap_or_default(),
                    claims_in: StateSet::from_bits(row.try_get("unique_states")?).unwrap_or_default(),
                    until_start: row.try_get("until_start")?,
                    unique_until: time("unique_until")?,
                })
            }
            _ => None,
        };
        Ok(Explained {
            outcome: row.try_get::<&str, _>("outcome")?.parse()?,
            replaced: row.try_get::<Option<Uuid>, _>("replaced")?.map(JobId::from),
            holder,
            new_args: row.try_get("new_args")?,
            new_scheduled_at: time("new_scheduled_at")?,
        })
    }
}
