//! Finding jobs by a filter.

use sqlx::types::Json;
use sqlx::{Row, SqlStr};
use uuid::Uuid;

use super::row::job_row;
use super::{Query, Store, query};
use crate::error::Result;
use crate::unique::StateSet;
use crate::words::filter::{Conditions, JobFilter};
use crate::words::ident::JobId;
use crate::words::job::JobRow;

impl Store<'_> {
    /// A page of the jobs that match.
    pub(crate) async fn list(self, filter: &JobFilter, limit: u32) -> Result<Vec<JobRow>> {
        let is_oldest_first = filter.0.oldest_first.unwrap_or_default();
        let statement = if is_oldest_first { &self.statements.list_oldest } else { &self.statements.list_newest };
        let rows = matching(statement, filter).bind(i64::from(limit)).fetch_all(self.connection).await?;
        rows.iter().map(job_row).collect()
    }

    /// The ids of up to `limit` jobs that match, the lowest beyond `after` first, up to `last`.
    pub(crate) async fn matching_ids(
        self,
        filter: &JobFilter,
        after: JobId,
        last: JobId,
        limit: u32,
    ) -> Result<Vec<JobId>> {
        let query = matching(&self.statements.matching_ids, filter);
        let query = query.bind(after.as_uuid()).bind(last.as_uuid()).bind(i64::from(limit));
        let rows = query.fetch_all(self.connection).await?;
        rows.iter().map(|row| Ok(JobId::from(row.try_get::<Uuid, _>("id")?))).collect()
    }

    /// The number of matching jobs, at most `limit`.
    pub(crate) async fn count(self, filter: &JobFilter, limit: i64) -> Result<u64> {
        let row = matching(&self.statements.count_matching, filter).bind(limit).fetch_one(self.connection).await?;
        Ok(row.try_get::<i64, _>("found")?.unsigned_abs())
    }

    /// The highest id of all jobs.
    pub(crate) async fn last_id(self) -> Result<Option<JobId>> {
        let row = query(&self.statements.last_id).fetch_optional(self.connection).await?;
        row.map(|row| Ok(JobId::from(row.try_get::<Uuid, _>("id")?))).transpose()
    }
}

/// A statement with the filter bound. Not prepared, so that the plan knows which conditions are set.
fn matching(statement: &SqlStr, filter: &JobFilter) -> Query {
    let Conditions { states, queues, kinds, ids, .. } = &filter.0;
    let ids = ids.as_ref().map(|ids| ids.iter().map(|id| id.as_uuid()).collect::<Vec<_>>());
    let query = query(statement).persistent(false).bind(states.map(state_names)).bind(queues).bind(kinds).bind(ids);
    query.bind(Json(filter))
}

/// States as the database spells them, in alphabetical order.
pub(super) fn state_names(states: StateSet) -> Vec<&'static str> {
    states.iter().map(crate::words::state::JobState::as_str).collect()
}
