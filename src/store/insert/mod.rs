//! Inserting jobs: the one place that chooses how.
//!
//! | the batch | goes |
//! |---|---|
//! | has jobs that run after others | one by one, or the unique way, and then their edges |
//! | has no key and no given id | the plain way: `INSERT` |
//! | has different keys and new ids, and ignores duplicates | the unique way: a look for holders, then `INSERT` of the others |
//! | anything else; and what the unique way left contested | one by one, in the order of keys |
//!
//! One row goes each way without arrays and without a subtransaction. Several rows go to `_insert_batch`, which tries the
//! unique way in a subtransaction of its own.

mod answer;
mod columns;
mod row;

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

pub(crate) use self::answer::{Answer, RowOutcome};
use self::answer::{index, outcome, share_jobs};
pub(in crate::store) use self::columns::Columns;
use self::columns::{bind_edges, have_times};
pub(crate) use self::row::{Edge, EdgeParent, NewRow};
use super::{Statements, interval, query};
use crate::error::Result;

/// Rows to be inserted, and what they need.
#[derive(Debug)]
pub(crate) struct InsertBatch {
    pub(crate) rows: Vec<NewRow>,
    /// Whether keys are taken one by one from the start, as equal keys in the batch, ids that may be there already and
    /// every `on_conflict` but `ignore` need.
    pub(crate) one_by_one: bool,
    /// Whether ids may be there already.
    pub(crate) may_exist: bool,
    /// Whether the rows are of several callers, so that a rejection is only its own row's.
    pub(crate) is_each: bool,
    /// How many more inputs each row stands for, which the audit counts as its duplicates. `None`: none.
    pub(crate) folded: Option<Vec<i32>>,
    /// The edges from rows to their parents. A row with parents is pending.
    pub(crate) edges: Vec<Edge>,
}

impl InsertBatch {
    /// Whether no row of it can meet a row that exists.
    fn is_plain(&self) -> bool {
        !self.one_by_one && self.edges.is_empty() && self.rows.iter().all(|row| row.claim.is_none())
    }
}

/// Inserts a batch. Answers once a row, in order. It is all or nothing, unless it `is_each`: under a rejection only the
/// rejected rows have an answer. `max_wait` limits the wait for each key of an open transaction. Takes the rows, unless the
/// answer is an error.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    statements: &Statements,
    batch: &mut InsertBatch,
    max_wait: Option<Duration>,
) -> Result<Vec<Option<Answer>>> {
    if batch.is_plain() {
        return insert_plain(connection, statements, &mut batch.rows).await;
    }
    let InsertBatch { rows, one_by_one, may_exist, is_each, folded, edges } = batch;
    if let ([row], None, true) = (rows.as_slice(), &folded, edges.is_empty()) {
        let is_quick = !*one_by_one && max_wait.is_none();
        let answered = match is_quick {
            true => insert_quickly(connection, statements, row).await?,
            false => insert_one(connection, statements, row, *may_exist, max_wait).await?,
        };
        return rows.drain(..).map(|row| Answer::of_unique(row, &answered).map(Some)).collect();
    }
    let max_wait = max_wait.map(interval);
    let inserting = if edges.is_empty() {
        let inserting = Columns::of_batch(query(&statements.insert_batch), rows).any(*may_exist);
        inserting.bind(*one_by_one).bind(*is_each).bind(max_wait).bind(&*folded)
    } else {
        let inserting = Columns::of_batch(query(&statements.insert_graph), rows).any(*may_exist);
        bind_edges(inserting.bind(*one_by_one).bind(max_wait).bind(&*folded), edges)
    };
    let answered = inserting.fetch_all(connection).await?;
    let mut answers = deal(std::mem::take(rows), &answered, Answer::of_unique)?;
    share_jobs(&mut answers, &answered)?;
    Ok(answers)
}

/// Inserts one row with a new id that ignores duplicates. A look at its key is mostly enough.
async fn insert_quickly(connection: &mut PgConnection, statements: &Statements, row: &NewRow) -> Result<PgRow> {
    let answered =
        Columns::of_one(query(&statements.insert_unique_one), row).unique().fetch_one(&mut *connection).await?;
    match outcome(&answered)? {
        RowOutcome::Contested => insert_one(connection, statements, row, false, None).await,
        _ => Ok(answered),
    }
}

/// Inserts one row, whatever it does with a duplicate.
async fn insert_one(
    connection: &mut PgConnection,
    statements: &Statements,
    row: &NewRow,
    may_exist: bool,
    max_wait: Option<Duration>,
) -> Result<PgRow> {
    let inserting = Columns::of_one(query(&statements.insert_one), row).any(may_exist).bind(max_wait.map(interval));
    Ok(inserting.fetch_one(connection).await?)
}

async fn insert_plain(
    connection: &mut PgConnection,
    statements: &Statements,
    rows: &mut Vec<NewRow>,
) -> Result<Vec<Option<Answer>>> {
    if let [row] = rows.as_slice() {
        let answered = Columns::of_one(query(&statements.insert_plain_one), row).plain().fetch_one(connection).await?;
        return rows.drain(..).map(|row| Answer::of_plain(row, &answered).map(Some)).collect();
    }
    let inserting = Columns::of_batch(query(&statements.insert_plain), rows).plain();
    let answered = inserting.bind(have_times(rows)).fetch_all(connection).await?;
    deal(std::mem::take(rows), &answered, Answer::of_plain)
}

/// Gives each row its answer. The answer without a place is that of every row that no other names.
fn deal(
    rows: Vec<NewRow>,
    answered: &[PgRow],
    read: fn(NewRow, &PgRow) -> Result<Answer>,
) -> Result<Vec<Option<Answer>>> {
    let mut by_place = vec![None; rows.len()];
    let mut common = None;
    for answer in answered {
        match answer.try_get::<Option<i32>, _>("place")? {
            Some(place) => by_place[index(place)] = Some(answer),
            None => common = Some(answer),
        }
    }
    let answers = rows.into_iter().zip(by_place);
    answers.map(|(row, answer)| answer.or(common).map(|answer| read(row, answer)).transpose()).collect()
}
