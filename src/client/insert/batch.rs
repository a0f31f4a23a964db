//! A batch: inputs with equal keys folded into rows, the edges from each child to its parents, and the answers that are made
//! of those of its rows.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::PgConnection;

use super::Client;
use super::parts::{insert_in_parts, is_large};
use crate::error::{Error, Rejection, Result};
use crate::store::{self, Answer, Edge, EdgeParent, InsertBatch, NewRow, RowOutcome, settle};
use crate::words::after::Parent;
use crate::words::job::{Inserted, NewJob};

/// Rows ready to be sent, and for each input the row that is sent for it.
pub(super) struct Batch {
    rows: InsertBatch,
    leaders: Vec<usize>,
}

impl Batch {
    /// Leaves out the inputs that are surely duplicates of an earlier one in the same batch, so that the keys of what is
    /// sent differ. `may_exist`: whether a row may be there already. The edges are those of the inputs.
    pub(super) fn fold(mut rows: Vec<NewRow>, may_exist: bool, edges: Vec<Edge>) -> Self {
        let firsts = if may_exist || rows.iter().any(NewRow::needs_order) { None } else { firsts(&rows) };
        let one_by_one = firsts.is_none();
        let leaders = match firsts {
            Some(firsts) => leave_out(&mut rows, &firsts),
            None => (0..rows.len()).collect(),
        };
        let folded = (leaders.len() > rows.len()).then(|| {
            let mut folded = vec![-1; rows.len()];
            leaders.iter().for_each(|leader| folded[*leader] += 1);
            folded
        });
        let edges = if folded.is_some() { of_leaders(edges, &leaders) } else { edges };
        Self { rows: InsertBatch { rows, one_by_one, may_exist, is_each: false, folded, edges }, leaders }
    }

    /// Inserts a batch, all or nothing. Answers once an input. `is_own`: the connection is in no transaction of the caller's.
    pub(super) async fn send(
        self,
        client: &Client,
        connection: &mut PgConnection,
        max_wait: Option<Duration>,
        is_own: bool,
    ) -> Result<Vec<Inserted>> {
        let Self { mut rows, leaders } = self;
        let statements = client.statements();
        let answers = if is_large(&rows)? {
            Box::pin(insert_in_parts(client, connection, rows, max_wait, is_own)).await?
        } else {
            settle!(is_own, connection, store::insert(connection, statements, &mut rows, max_wait))
        };
        check_busy(&answers, max_wait)?;
        let rejections: Vec<_> = rejections(&answers, &leaders).into_iter().flatten().collect();
        if !rejections.is_empty() {
            return Err(Error::Rejected(rejections));
        }
        deal(answers, &leaders).into_iter().map(answered).collect()
    }

    /// Inserts a batch of several callers, each of which gets its own answer.
    pub(super) async fn send_each(
        self,
        client: &Client,
        connection: &mut PgConnection,
        max_wait: Duration,
    ) -> Result<Vec<Result<Inserted>>> {
        let Self { mut rows, leaders } = self;
        rows.is_each = true;
        let answers = store::insert(connection, client.statements(), &mut rows, Some(max_wait)).await?;
        check_busy(&answers, Some(max_wait))?;
        let rejections = rejections(&answers, &leaders);
        let results = deal(answers, &leaders).into_iter().zip(rejections);
        let result = |(inserted, rejection): (Option<Inserted>, Option<Rejection>)| match rejection {
            Some(rejection) => Err(Error::Rejected(vec![Rejection { index: 0, ..rejection }])),
            None => answered(inserted),
        };
        Ok(results.map(result).collect())
    }
}

/// For each row the first one with its key. `None`: only the database can tell whether that one claims the key.
fn firsts(rows: &[NewRow]) -> Option<Vec<usize>> {
    let keys = rows.iter().filter(|row| row.claim.is_some()).count();
    let mut first_of: HashMap<&str, usize> = HashMap::with_capacity(keys);
    let mut firsts = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        let first = row.claim.as_ref().map_or(index, |claim| *first_of.entry(&claim.key).or_insert(index));
        if first != index && !rows[first].surely_claims() {
            return None;
        }
        firsts.push(first);
    }
    Some(firsts)
}

/// Leaves the first rows only. Returns for each row that was there the place of its first one.
fn leave_out(rows: &mut Vec<NewRow>, firsts: &[usize]) -> Vec<usize> {
    let mut places = Vec::with_capacity(firsts.len());
    let mut place = 0;
    for (index, first) in firsts.iter().enumerate() {
        places.push(place);
        place += usize::from(*first == index);
    }
    if place < rows.len() {
        let mut is_first = firsts.iter().enumerate().map(|(index, first)| *first == index);
        rows.retain(|_| is_first.next().unwrap_or_default());
    }
    firsts.iter().map(|first| places[*first]).collect()
}

/// The edges of the jobs of a call, in their order.
pub(super) fn edges(jobs: &[NewJob]) -> Result<Vec<Edge>> {
    if jobs.iter().all(|job| job.parents.is_empty()) {
        return Ok(Vec::new());
    }
    let mut places = HashMap::new();
    for (place, job) in jobs.iter().enumerate() {
        if let Some(mark) = job.mark.get()
            && places.insert(mark, place).is_some()
        {
            return Err(refused("must name a job that is in the call once", format!("job {place} is a clone")));
        }
    }
    let mut edges = Vec::new();
    for (child, job) in jobs.iter().enumerate() {
        for (parent, condition) in &job.parents {
            let parent = match parent {
                Parent::Stored(id) => EdgeParent::Stored(*id),
                Parent::OfCall(mark) => match places.get(mark) {
                    Some(place) if *place < child => EdgeParent::OfBatch(*place),
                    Some(place) => {
                        let given = format!("job {child} is after job {place}");
                        return Err(refused("must name an earlier job of the call", given));
                    }
                    None => {
                        let given = format!("a parent of job {child} ({:?}) is not in it", job.kind());
                        return Err(refused(
                            "must name a job of the same call, or the id of one that is inserted",
                            given,
                        ));
                    }
                },
            };
            edges.push(Edge { child, parent, condition: *condition });
        }
    }
    Ok(edges)
}

const fn refused(problem: &'static str, given: String) -> Error {
    Error::InvalidOption { option: "after", problem, given }
}

/// The edges of the rows that are sent, after inputs were folded onto leaders. An input that is a duplicate of an earlier
/// input has no parents of its own.
pub(super) fn of_leaders(edges: Vec<Edge>, leaders: &[usize]) -> Vec<Edge> {
    let mut first_of = HashMap::new();
    for (input, leader) in leaders.iter().enumerate() {
        first_of.entry(*leader).or_insert(input);
    }
    let is_sent = |input: usize| first_of.get(&leaders[input]) == Some(&input);
    let sent = edges.into_iter().filter(|edge| is_sent(edge.child));
    let moved = sent.map(|Edge { child, parent, condition }| Edge {
        child: leaders[child],
        parent: match parent {
            EdgeParent::OfBatch(place) => EdgeParent::OfBatch(leaders[place]),
            stored @ EdgeParent::Stored(_) => stored,
        },
        condition,
    });
    moved.collect()
}

/// The answer of an input, which the database always gives.
pub(super) fn answered(inserted: Option<Inserted>) -> Result<Inserted> {
    inserted.ok_or_else(|| sqlx::Error::Protocol("an insert has no answer".to_owned()).into())
}

fn check_busy(answers: &[Option<Answer>], max_wait: Option<Duration>) -> Result<()> {
    match answers.iter().flatten().any(|answer| answer.outcome == RowOutcome::Busy) {
        true => Err(Error::Busy { waited: max_wait.unwrap_or_default() }),
        false => Ok(()),
    }
}

/// For each input, the job that it was rejected for.
fn rejections(answers: &[Option<Answer>], leaders: &[usize]) -> Vec<Option<Rejection>> {
    let rejection = |(index, leader): (usize, &usize)| {
        let answer = answers[*leader].as_ref().filter(|answer| answer.outcome == RowOutcome::Rejected)?;
        match answer.earlier {
            Some(earlier) => Some(Rejection::of_earlier(index, earlier)),
            None => Some(Rejection::of_holder(index, answer.job.as_ref()?.claim_at(answer.answered_at)?)),
        }
    };
    leaders.iter().enumerate().map(rejection).collect()
}

/// Gives every input the answer of the row that was sent for it. The first gets the outcome of the row. Inputs that were
/// folded onto it are duplicates of it.
fn deal(mut answers: Vec<Option<Answer>>, leaders: &[usize]) -> Vec<Option<Inserted>> {
    let mut to_come = vec![0_usize; answers.len()];
    leaders.iter().for_each(|leader| to_come[*leader] += 1);
    let mut is_dealt = vec![false; answers.len()];
    let deal = |leader: &usize| {
        let leader = *leader;
        to_come[leader] -= 1;
        let is_first = !std::mem::replace(&mut is_dealt[leader], true);
        let answer = if to_come[leader] == 0 { answers[leader].take() } else { answers[leader].clone() }?;
        Some(Inserted {
            job: answer.job?,
            duplicate: !is_first
                || matches!(answer.outcome, RowOutcome::Duplicate | RowOutcome::Updated | RowOutcome::Covered),
            covered: answer.outcome == RowOutcome::Covered,
            updated: answer.outcome == RowOutcome::Updated,
            is_new: is_first && answer.is_new,
            replaced: answer.replaced.filter(|_| is_first),
            answered_at: answer.answered_at,
        })
    };
    leaders.iter().map(deal).collect()
}
