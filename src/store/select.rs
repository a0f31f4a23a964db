//! Finding jobs by a filter.

use sqlx::{PgConnection, Row, SqlStr};
use uuid::Uuid;

use super::row::job_row;
use super::{Query, Statements, query};
use crate::error::Result;
use crate::filter::JobFilter;
use crate::ident::JobId;
use crate::job::JobRow;
use crate::unique::StateSet;

/// A part of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) is_oldest_first: bool,
    pub(crate) after: Option<JobId>,
    pub(crate) until: Option<JobId>,
    pub(crate) limit: u32,
}

/// A page of the jobs that match.
pub(crate) async fn list(
    connection: &mut PgConnection,
    statements: &Statements,
    filter: &JobFilter,
    page: Page,
) -> Result<Vec<JobRow>> {
    let after = page.after.map(|after| after.as_uuid().as_u128());
    let (statement, from, end) = match page.is_oldest_first {
        true => (&statements.list_oldest, after.map_or(Some(0), |after| after.checked_add(1)), Uuid::max()),
        false => (&statements.list_newest, after.map_or(Some(u128::MAX), |after| after.checked_sub(1)), Uuid::nil()),
    };
    // There is no id beyond the first and the last of all.
    let Some(from) = from else { return Ok(Vec::new()) };
    let until = page.until.map_or(end, JobId::as_uuid);
    let query = matching(statement, filter).bind(Uuid::from_u128(from)).bind(until).bind(i64::from(page.limit));
    let rows = query.fetch_all(connection).await?;
    rows.iter().map(job_row).collect()
}

/// The ids of up to `limit` jobs that match, the lowest beyond `after` first, up to `last`.
pub(crate) async fn matching_ids(
    connection: &mut PgConnection,
    statements: &Statements,
    filter: &JobFilter,
    after: JobId,
    last: JobId,
    limit: u32,
) -> Result<Vec<JobId>> {
    let query = matching(&statements.matching_ids, filter);
    let query = query.bind(after.as_uuid()).bind(last.as_uuid()).bind(i64::from(limit));
    let rows = query.fetch_all(connection).await?;
    rows.iter().map(|row| Ok(JobId::from(row.try_get::<Uuid, _>("id")?))).collect()
}

/// The number of matching jobs, at most `limit`.
pub(crate) async fn count(
    connection: &mut PgConnection,
    statements: &Statements,
    filter: &JobFilter,
    limit: i64,
) -> Result<u64> {
    let row = matching(&statements.count_matching, filter).bind(limit).fetch_one(connection).await?;
    Ok(row.try_get::<i64, _>("found")?.unsigned_abs())
}

/// The highest id of all jobs.
pub(crate) async fn last_id(connection: &mut PgConnection, statements: &Statements) -> Result<Option<JobId>> {
    let row = query(&statements.last_id).fetch_optional(connection).await?;
    row.map(|row| Ok(JobId::from(row.try_get::<Uuid, _>("id")?))).transpose()
}

/// A statement with the filter bound. Not prepared, so that the plan knows which conditions are set.
fn matching(statement: &SqlStr, filter: &JobFilter) -> Query {
    let JobFilter {
        means_all: _,
        ids,
        except_ids,
        id_at_least,
        states,
        queues,
        kinds,
        unique_key,
        group,
        args,
        args_path,
        meta,
        priority,
        attempts_at_least,
        error_code,
        error_pattern,
        created,
        scheduled,
        attempted,
        finalized,
        failed,
        limit: _,
    } = filter;
    let query = query(statement).persistent(false);
    let query = query.bind(states.map(state_names)).bind(queues).bind(kinds).bind(unique_key).bind(args).bind(meta);
    let query = query.bind(priority).bind(attempts_at_least.map(i32::from));
    let query = query.bind(created.after).bind(created.before);
    let query = query.bind(scheduled.after).bind(scheduled.before);
    let query = query.bind(finalized.after).bind(finalized.before);
    let query = query.bind(attempted.after).bind(attempted.before);
    let uuids =
        |ids: &Option<Vec<JobId>>| ids.as_ref().map(|ids| ids.iter().map(|id| id.as_uuid()).collect::<Vec<_>>());
    let query = query.bind(uuids(ids));
    let query = query.bind(group).bind(id_at_least.map(JobId::as_uuid)).bind(error_code);
    query.bind(uuids(except_ids)).bind(failed.after).bind(failed.before).bind(args_path).bind(error_pattern)
}

/// States as the database spells them, in alphabetical order.
pub(super) fn state_names(states: StateSet) -> Vec<&'static str> {
    states.iter().map(crate::state::JobState::as_str).collect()
}
