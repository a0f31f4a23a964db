//! Inserting jobs: the one place that chooses the statement.
//!
//! | the rows | go |
//! |---|---|
//! | have no key and no given id | plain: `INSERT` |
//! | have new ids, ignore duplicates, and have different keys or surely claim equal ones | unique: a search for holders, then `INSERT` of the others |
//! | are anything else | one by one, in the order of keys |
//!
//! A single row is sent without arrays. If its key is new or held, it needs no subtransaction. A contested row is sent again, one by
//! one. Several rows with a key or a given id, and rows that run after others, go to `_insert_batch`, to which `one_by_one`
//! says the way.

mod answer;
mod columns;
mod row;

use std::collections::HashMap;
use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;

pub(crate) use self::answer::Answer;
use self::answer::{index, outcome, share_jobs};
pub(in crate::store) use self::columns::Columns;
use self::columns::{bind_edges, have_times};
pub(crate) use self::row::{Edge, EdgeParent, NewRow};
use super::query::lock_timeout;
use super::{Store, interval, query};
use crate::error::{Error, Result};

/// Rows to be inserted, and what they need.
#[derive(Debug)]
pub(crate) struct InsertBatch {
    pub(crate) rows: Vec<NewRow>,
    /// Whether ids may be there already.
    pub(crate) may_exist: bool,
    /// Whether the rows are of several callers, so that a rejection is only its own row's. Then the connection is in no
    /// transaction of a caller's.
    pub(crate) is_each: bool,
    /// The edges from rows to their parents. A row with parents is pending.
    pub(crate) edges: Vec<Edge>,
}

impl Store<'_> {
    /// Inserts a batch. Answers once a row, in order. It is all or nothing, unless it `is_each`: under a rejection only the
    /// rejected rows have an answer. `max_wait` limits the wait for each key of an open transaction. Takes the rows, unless the
    /// answer is an error.
    pub(crate) async fn insert(
        self,
        batch: &mut InsertBatch,
        max_wait: Option<Duration>,
    ) -> Result<Vec<Option<Answer>>> {
        let InsertBatch { rows, may_exist, is_each, edges } = batch;
        let has_keys = rows.iter().any(|row| row.claim.is_some());
        let one_by_one = *may_exist || rows.iter().any(NewRow::needs_order);
        if edges.is_empty() && !one_by_one && !has_keys {
            return self.insert_plain(rows).await;
        }
        if let ([row], true) = (rows.as_slice(), edges.is_empty()) {
            // In a caller's transaction a lock timeout has to be caught.
            let answered = match one_by_one || max_wait.is_some() && !*is_each {
                true => self.insert_one(row, *may_exist, max_wait).await?,
                false => self.insert_quickly(row, max_wait).await?,
            };
            return rows.drain(..).map(|row| Answer::of_unique(row, &answered).map(Some)).collect();
        }
        let firsts = if one_by_one { None } else { firsts(rows) };
        // The places of rows with edges have no gaps.
        let firsts = firsts.filter(|firsts| edges.is_empty() || folded(firsts).is_none());
        let one_by_one = firsts.is_none();
        let (places, sent) = in_order(rows, firsts.as_deref());
        let (waited, max_wait) = (max_wait, max_wait.map(interval));
        let inserting = if edges.is_empty() {
            let inserting = Columns::of_batch(query(&self.statements.insert_batch), sent).any(*may_exist).bind(places);
            inserting.bind(one_by_one).bind(*is_each).bind(max_wait).bind(firsts.as_deref().and_then(folded))
        } else {
            let inserting = Columns::of_batch(query(&self.statements.insert_graph), sent).any(*may_exist).bind(places);
            bind_edges(inserting.bind(one_by_one).bind(max_wait), edges)
        };
        let answered = inserting.fetch_all(self.connection).await?;
        answered.first().map_or(Ok(()), |first| check_busy(first, waited))?;
        let mut answers = deal(std::mem::take(rows), &answered, Answer::of_unique)?;
        share_jobs(&mut answers, &answered)?;
        for (place, first) in firsts.into_iter().flatten().enumerate().filter(|(place, first)| place != first) {
            answers[place] = answers[first].as_ref().map(Answer::for_duplicate);
        }
        Ok(answers)
    }

    /// Inserts one row with a new id that ignores duplicates. Most need one statement.
    async fn insert_quickly(self, row: &NewRow, max_wait: Option<Duration>) -> Result<PgRow> {
        let inserting = Columns::of_one(query(&self.statements.insert_unique_one), row).unique();
        let answered = inserting.bind(max_wait.map(lock_timeout)).fetch_one(&mut *self.connection).await?;
        match outcome(&answered)? {
            "contested" => self.insert_one(row, false, max_wait).await,
            _ => Ok(answered),
        }
    }

    /// Inserts one row, whatever it does with a duplicate.
    async fn insert_one(self, row: &NewRow, may_exist: bool, max_wait: Option<Duration>) -> Result<PgRow> {
        let inserting =
            Columns::of_one(query(&self.statements.insert_one), row).any(may_exist).bind(max_wait.map(interval));
        let answered = inserting.fetch_one(self.connection).await?;
        check_busy(&answered, max_wait).map(|()| answered)
    }

    async fn insert_plain(self, rows: &mut Vec<NewRow>) -> Result<Vec<Option<Answer>>> {
        if let [row] = rows.as_slice() {
            let answered = Columns::of_one(query(&self.statements.insert_plain_one), row)
                .plain()
                .fetch_one(self.connection)
                .await?;
            return rows.drain(..).map(|row| Answer::of_plain(row, &answered).map(Some)).collect();
        }
        let inserting = Columns::of_batch(query(&self.statements.insert_plain), rows.iter().collect()).plain();
        let answered = inserting.bind(have_times(rows)).fetch_all(self.connection).await?;
        deal(std::mem::take(rows), &answered, Answer::of_plain)
    }
}

/// For each row the first one with its key, of which it surely is a duplicate. `None`: only the database can tell whether that
/// one claims the key.
fn firsts<'r>(rows: &'r [NewRow]) -> Option<Vec<usize>> {
    let mut first_of: HashMap<&'r str, usize> = HashMap::with_capacity(rows.len());
    let first = |(place, row): (usize, &'r NewRow)| {
        let first = row.key().map_or(place, |key| *first_of.entry(key).or_insert(place));
        (first == place || rows[first].surely_claims()).then_some(first)
    };
    rows.iter().enumerate().map(first).collect()
}

/// For each place how many later rows are duplicates of its row, which the audit counts. `None`: none is.
fn folded(firsts: &[usize]) -> Option<Vec<i32>> {
    let mut folded = vec![0; firsts.len()];
    let duplicates = firsts.iter().enumerate().filter(|(place, first)| place != *first);
    duplicates.for_each(|(_, first)| folded[*first] += 1);
    folded.iter().any(|count| *count > 0).then_some(folded)
}

/// The rows that are sent, in the order of their keys, and the place of each: the first of each key.
fn in_order<'r>(rows: &'r [NewRow], firsts: Option<&[usize]>) -> (Vec<i32>, Vec<&'r NewRow>) {
    let is_sent = |place: &usize| firsts.is_none_or(|firsts| firsts[*place] == *place);
    let mut order: Vec<usize> = (0..rows.len()).filter(is_sent).collect();
    order.sort_by_key(|place| rows[*place].key());
    order.into_iter().map(|place| (answer::place(place), &rows[place])).unzip()
}

/// The error of a wait for the key of an open transaction that ran out. Nothing was inserted.
fn check_busy(answered: &PgRow, max_wait: Option<Duration>) -> Result<()> {
    match outcome(answered)? {
        "busy" => Err(Error::Busy { waited: max_wait.unwrap_or_default() }),
        _ => Ok(()),
    }
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
