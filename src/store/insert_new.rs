//! Inserting jobs whose keys are probably free.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::columns::{Claims, Columns};
use super::insert::{Entered, NewRow};
use super::row::Stored;
use super::{Statements, lock_timeout, query};
use crate::error::Result;
use crate::state::JobState;

/// The most rows of a small batch.
const MOST_SMALL: usize = 2_000;

/// The most bytes of args in a small batch.
const MOST_SMALL_ARGS: usize = 4_000_000;

/// Whether rows can be told apart by the index alone: each may run now and claims its key, if it has one, by
/// that. A job that does not claim its key yet is a duplicate all the same, but meets nobody in the index.
/// (A deadline is for the statement that looks: its rows come back with theirs.)
pub(crate) fn index_decides(rows: &[NewRow]) -> bool {
    rows.iter().all(|row| {
        let claims_now = row.claim.as_ref().is_none_or(|claim| {
            claim.states.contains(JobState::Available) && claim.period.is_none() && claim.ttl.is_none()
        });
        row.is_now() && claims_now
    })
}

/// What becomes of rows when one of them meets somebody.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Together {
    /// None is inserted: the error [is one that gives back](crate::Error::is_given_back).
    Yes,
    /// The others are.
    No,
}

/// Inserts rows with new ids and different keys, on a connection without a transaction; only such that
/// [`index_decides`]. `None`: it met somebody. `patience` is how long each waits for an uncommitted rival.
///
/// Keys are taken in one order, so that two batches can never deadlock; but those of a small batch that goes all
/// or none in the order of their ids, which two indexes take a good deal faster. Such a batch is over, and each of
/// its waits, long before PostgreSQL by default looks for a deadlock.
pub(crate) async fn insert_new(
    connection: &mut PgConnection,
    statements: &Statements,
    rows: &[NewRow],
    patience: Duration,
    together: Together,
) -> Result<Vec<Option<Entered>>> {
    let in_order = if together == Together::Yes && is_small(rows) { rows.iter().collect() } else { in_key_order(rows) };
    let (columns, claims) = (Columns::folded(&in_order), Claims::folded(&in_order));
    let inserting = match rows {
        [row, ..] if columns.are_alike() && claims.are_alike() => {
            let inserting =
                query(&statements.insert_new_alike).bind(&columns.ids).bind(&columns.args).bind(&claims.keys);
            row.bind_claim_to(row.bind_common_to(inserting))
        }
        _ => claims.bind_undated_to(columns.bind_timeless_to(query(&statements.insert_new))),
    };
    let inserting = inserting.bind(lock_timeout(patience)).bind(together == Together::Yes);
    let answer = inserting.fetch_one(connection).await?;
    let entered = Entered::now(answer.try_get::<Stored, _>("created_at")?.0);
    let Some(ids) = answer.try_get::<Option<Vec<Uuid>>, _>("entered")? else {
        return Ok(vec![Some(entered); rows.len()]);
    };
    let ids: HashSet<Uuid> = ids.into_iter().collect();
    Ok(rows.iter().map(|row| ids.contains(&row.id.as_uuid()).then_some(entered)).collect())
}

/// Whether rows are in within some hundredths of a second.
fn is_small(rows: &[NewRow]) -> bool {
    rows.len() <= MOST_SMALL && rows.iter().map(|row| row.args.get().len()).sum::<usize>() <= MOST_SMALL_ARGS
}

/// The order in which statements take keys: that of their bytes.
fn in_key_order(rows: &[NewRow]) -> Vec<&NewRow> {
    let mut rows: Vec<_> = rows.iter().collect();
    rows.sort_unstable_by_key(|row| row.claim.as_ref().map(|claim| claim.key.as_str()));
    rows
}
