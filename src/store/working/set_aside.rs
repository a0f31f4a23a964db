//! Jobs that the database cannot return or start: tried one by one, and set aside.

use std::time::Duration;

use serde_json::Value;
use sqlx::Row;
use sqlx::types::Json;
use uuid::Uuid;

use super::fetch::QueueDemand;
use crate::error::Result;
use crate::store::{Store, begin_limited, commit, interval, query};

/// A fetch that failed.
pub(crate) struct FailedFetch<'a> {
    pub(crate) worker: Uuid,
    pub(crate) slots: &'a [QueueDemand],
    pub(crate) kinds: Option<&'a [String]>,
    /// Whether it failed for the time that it took, or for the size of its answer.
    pub(crate) may_be_size: bool,
    pub(crate) error: String,
}

/// A job that such a fetch would take.
pub(crate) struct TriedJob {
    pub(crate) id: Uuid,
    /// `false`: the time was over before it was tried.
    pub(crate) is_tried: bool,
    /// Why it is set aside. `None`: it is not.
    pub(crate) problem: Option<String>,
}

/// Whether an error of this code is due to the values that a statement read.
pub(crate) fn is_of_values(code: &str) -> bool {
    // Data exceptions, limits, errors of reading a file, and internal errors, of which a damaged value is one.
    ["22", "54", "58", "XX"].iter().any(|class| code.starts_with(class))
}

impl Store<'_> {
    /// Tries the jobs that the fetch would take, or `only` these, for so long at most, and sets those aside that are at fault.
    /// Changes `memory`, so that later fetches leave them out.
    pub(crate) async fn set_aside(
        self,
        failed: &FailedFetch<'_>,
        only: Option<&[Uuid]>,
        limit: Duration,
        memory: &mut Value,
    ) -> Result<Vec<TriedJob>> {
        let mut transaction = begin_limited(self.connection, Some(limit)).await?;
        let asking = query(&self.statements.set_aside)
            .persistent(false)
            .bind(failed.worker)
            .bind(Json(failed.slots))
            .bind(failed.kinds)
            .bind(only)
            .bind(failed.may_be_size)
            .bind(interval(limit))
            .bind(&failed.error)
            .bind(&*memory);
        let rows = asking.fetch_all(&mut transaction).await?;
        commit(transaction).await?;
        let mut tried = Vec::with_capacity(rows.len());
        for row in &rows {
            match row.try_get("id")? {
                Some(id) => {
                    tried.push(TriedJob { id, is_tried: row.try_get("is_tried")?, problem: row.try_get("problem")? })
                }
                None => *memory = row.try_get("memory")?,
            }
        }
        Ok(tried)
    }
}
