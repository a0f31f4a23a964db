//! A large batch, sent in parts within one transaction.
//!
//! The server holds several copies of what a statement carries, so the size of a statement is limited. The parts follow the
//! one order in which every batch takes its keys, and jobs with equal keys are in one part. So the parts mean what one
//! statement would mean, and two batches cannot deadlock.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::PgConnection;

use super::Client;
use crate::error::{Error, Result};
use crate::store::{self, Answer, InsertBatch, NewRow};
use crate::unique::InsertOutcome;

/// The most bytes of a part. A single job, and jobs with one key, can exceed it.
pub(super) const PART: usize = 16 << 20;

/// The most bytes of a call with jobs that run after others. It is one statement.
const GRAPH: usize = 64 << 20;

/// About the bytes of a row beside its args and meta.
const COLUMNS: usize = 256;

/// Whether a batch exceeds a part.
pub(super) fn is_large(batch: &InsertBatch) -> Result<bool> {
    let size: usize = batch.rows.iter().map(size).sum();
    if !batch.edges.is_empty() && size > GRAPH {
        let problem =
            "a call with jobs that run after others must not exceed 64 MB: insert parts of it in one transaction";
        return Err(Error::InvalidOption { option: "after", problem, given: format!("{} MB", size >> 20) });
    }
    Ok(batch.edges.is_empty() && size > PART)
}

fn size(row: &NewRow) -> usize {
    let meta = if row.meta.is_empty() { 0 } else { serde_json::to_vec(&row.meta).map_or(0, |text| text.len()) };
    COLUMNS + row.args.get().len() + meta
}

/// Inserts a large batch, all or nothing, and answers once a row. In the caller's transaction a savepoint stays only where a
/// part could be refused. Rivals of what is undone wait until the whole transaction ends.
pub(super) async fn insert_in_parts(
    client: &Client,
    connection: &mut PgConnection,
    batch: InsertBatch,
    max_wait: Option<Duration>,
    is_own: bool,
) -> Result<Vec<Option<Answer>>> {
    if is_own || !store::begin_savepoint(connection).await? {
        let mut transaction = store::begin_read_committed(connection).await?;
        let answers = insert_each(client, &mut transaction, batch, max_wait).await;
        if is_refused(&answers) {
            transaction.rollback().await?;
        } else if answers.is_ok() {
            store::commit(transaction).await?;
        }
        return answers;
    }
    if max_wait.is_none() && !batch.rows.iter().any(NewRow::needs_order) {
        store::end_savepoint(connection, false).await?;
        return insert_each(client, connection, batch, max_wait).await;
    }
    let answers = insert_each(client, connection, batch, max_wait).await;
    if answers.is_ok() || is_refused(&answers) {
        store::end_savepoint(connection, is_refused(&answers)).await?;
    }
    answers
}

fn is_refused(answers: &Result<Vec<Option<Answer>>>) -> bool {
    match answers {
        Ok(answers) => answers.iter().flatten().any(|answer| answer.outcome == InsertOutcome::Rejected),
        Err(error) => matches!(error, Error::Busy { .. }),
    }
}

/// Inserts the parts one after another. The answers are those of one statement.
async fn insert_each(
    client: &Client,
    connection: &mut PgConnection,
    batch: InsertBatch,
    max_wait: Option<Duration>,
) -> Result<Vec<Option<Answer>>> {
    let InsertBatch { rows, may_exist, is_each, edges: _ } = batch;
    let has_keys = rows.iter().any(|row| row.claim.is_some());
    // The order of work is that of the batch, though the keys have an order of their own.
    let now = match has_keys || may_exist {
        true => Some(client.store(&mut *connection).database_time().await?),
        false => None,
    };
    let mut answers: Vec<Option<Answer>> = Vec::new();
    answers.resize_with(rows.len(), || None);
    let mut rows: Vec<Option<NewRow>> = rows.into_iter().map(Some).collect();
    let mut is_rejected = false;
    for places in parts(&rows, may_exist) {
        let due = |mut row: NewRow| {
            row.scheduled_at = row.scheduled_at.or_else(|| Some(now? + row.delay.unwrap_or_default()));
            row.delay = row.delay.filter(|_| now.is_none());
            row
        };
        let part = places.iter().filter_map(|place| rows[*place].take()).map(due).collect();
        let mut part = InsertBatch { rows: part, may_exist, is_each, edges: Vec::new() };
        let answered = client.store(connection).insert(&mut part, max_wait).await?;
        for (place, answer) in places.iter().zip(answered) {
            let Some(mut answer) = answer else { continue };
            answer.earlier = answer.earlier.map(|earlier| places[earlier]);
            is_rejected |= answer.outcome == InsertOutcome::Rejected;
            answers[*place] = Some(answer);
        }
    }
    if is_rejected {
        for answer in &mut answers {
            answer.take_if(|answer| answer.outcome != InsertOutcome::Rejected);
        }
    }
    Ok(answers)
}

/// The places of the rows of each part, in the order in which every batch takes its keys.
fn parts(rows: &[Option<NewRow>], may_exist: bool) -> Vec<Vec<usize>> {
    let rows: Vec<&NewRow> = rows.iter().flatten().collect();
    let key = |place: usize| rows[place].key();
    let mut first_keys = HashMap::new();
    if may_exist {
        for place in (0..rows.len()).rev() {
            first_keys.insert(rows[place].id, key(place));
        }
    }
    // As _jobs_by_key orders them: rows without a key can still meet by their ids, and one whose id an earlier row has under
    // another key comes last.
    let turn = |place: usize| {
        let comes_last = first_keys.get(&rows[place].id).is_some_and(|first| *first != key(place));
        let id_alone = (may_exist && key(place).is_none()).then(|| rows[place].id);
        (comes_last, key(place).is_none(), key(place), id_alone, place)
    };
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_unstable_by_key(|place| turn(*place));
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut left = 0;
    for place in order {
        let size = size(rows[place]);
        let is_alike = |last: &usize| match (key(*last), key(place)) {
            (None, None) => rows[*last].id == rows[place].id,
            (last, this) => last == this,
        };
        let goes_along = |part: &&mut Vec<usize>| size <= left || part.last().is_some_and(is_alike);
        match parts.last_mut().filter(goes_along) {
            Some(part) => part.push(place),
            None => {
                parts.push(vec![place]);
                left = PART;
            }
        }
        left = left.saturating_sub(size);
    }
    parts
}
