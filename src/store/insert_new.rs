//! Inserting jobs whose keys are probably free.

use std::time::Duration;

use sqlx::types::Json;
use sqlx::{PgConnection, Row};

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
pub(crate) fn index_decides<'a>(rows: impl IntoIterator<Item = &'a NewRow>) -> bool {
    rows.into_iter().all(|row| {
        let claims_now = row.claim.as_ref().is_none_or(|claim| {
            claim.states.contains(JobState::Available) && claim.period.is_none() && claim.ttl.is_none()
        });
        row.is_now() && claims_now
    })
}

/// Whether several keys are asked after before a row is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Look {
    /// Where one is held, nothing is written.
    First,
    /// What was written before one that is held stays as dead rows.
    Never,
}

/// Inserts rows with new ids and different keys, all or none; only such that [`index_decides`]. `None`: none is there,
/// and a transaction goes on after it: one met somebody, or, of several, waited for an uncommitted rival for longer than
/// `patience`, which of one alone is an error.
///
/// Keys are taken in one order, so that two batches can never deadlock; but those of a small batch in the order of
/// their ids, which two indexes take a good deal faster. Each wait of such a batch is over long before PostgreSQL by
/// default looks for a deadlock.
pub(crate) async fn insert_new(
    connection: &mut PgConnection,
    statements: &Statements,
    mut rows: Vec<&NewRow>,
    patience: Option<Duration>,
    look: Look,
) -> Result<Option<Entered>> {
    let patience = patience.map(lock_timeout);
    if let [row] = *rows {
        let inserting = query(&statements.insert_new_one).bind(row.id.as_uuid()).bind(Json(&*row.args));
        let inserting = row.bind_claim_to(row.bind_common_to(inserting)).bind(patience);
        let answer = inserting.fetch_optional(connection).await?;
        return answer.map(|answer| Ok(Entered::now(answer.try_get::<Stored, _>("created_at")?.0))).transpose();
    }
    if !is_small(&rows) {
        rows.sort_unstable_by_key(|row| row.claim.as_ref().map(|claim| claim.key.as_str()));
    }
    let (columns, claims) = (Columns::folded(&rows), Claims::folded(&rows));
    let inserting = claims.bind_undated_to(columns.bind_timeless_to(query(&statements.insert_new)));
    let answer = inserting.bind(patience).bind(look == Look::First).fetch_one(connection).await?;
    Ok(answer.try_get::<Option<Stored>, _>("created_at")?.map(|created_at| Entered::now(created_at.0)))
}

/// Whether rows are in within some hundredths of a second.
fn is_small(rows: &[&NewRow]) -> bool {
    rows.len() <= MOST_SMALL && rows.iter().map(|row| row.args.get().len()).sum::<usize>() <= MOST_SMALL_ARGS
}
