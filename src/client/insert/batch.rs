//! A batch: the edges from each child to its parents, and the answers to the caller.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::PgConnection;

use super::Client;
use super::parts::{insert_in_parts, is_large};
use crate::error::{Error, Rejection, Result};
use crate::store::{Answer, Edge, EdgeParent, InsertBatch, NewRow, settle};
use crate::unique::InsertOutcome;
use crate::words::after::Parent;
use crate::words::job::{Inserted, NewJob};

/// Inserts a batch, all or nothing. Answers once a row. `is_own`: the connection is in no transaction of the caller's.
pub(super) async fn send(
    client: &Client,
    connection: &mut PgConnection,
    mut batch: InsertBatch,
    max_wait: Option<Duration>,
    is_own: bool,
) -> Result<Vec<Inserted>> {
    let answers = if is_large(&batch)? {
        Box::pin(insert_in_parts(client, connection, batch, max_wait, is_own)).await?
    } else {
        settle!(is_own, connection, client.store(connection).insert(&mut batch, max_wait))
    };
    let rejections: Vec<_> =
        answers.iter().enumerate().filter_map(|(index, answer)| rejection(index, answer)).collect();
    if !rejections.is_empty() {
        return Err(Error::Rejected(rejections));
    }
    answers.into_iter().map(answered).collect()
}

/// Inserts a batch of several callers, each of which gets its own answer.
pub(super) async fn send_each(
    client: &Client,
    connection: &mut PgConnection,
    rows: Vec<NewRow>,
    max_wait: Duration,
) -> Result<Vec<Result<Inserted>>> {
    let mut batch = InsertBatch { rows, may_exist: false, is_each: true, edges: Vec::new() };
    let answers = client.store(connection).insert(&mut batch, Some(max_wait)).await?;
    let result = |answer: Option<Answer>| match rejection(0, &answer) {
        Some(rejection) => Err(Error::Rejected(vec![rejection])),
        None => answered(answer),
    };
    Ok(answers.into_iter().map(result).collect())
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

/// The job that an input was rejected for.
fn rejection(index: usize, answer: &Option<Answer>) -> Option<Rejection> {
    let answer = answer.as_ref().filter(|answer| answer.outcome == InsertOutcome::Rejected)?;
    match answer.earlier {
        Some(earlier) => Some(Rejection::of_earlier(index, earlier)),
        None => Some(Rejection::of_holder(index, answer.job.as_ref()?.claim_at(answer.answered_at)?)),
    }
}

/// The answer of an input, which the database always gives.
fn answered(answer: Option<Answer>) -> Result<Inserted> {
    let Some(Answer { outcome, is_new, replaced, job: Some(job), answered_at, earlier: _ }) = answer else {
        return Err(unanswered());
    };
    Ok(Inserted {
        job,
        duplicate: matches!(outcome, InsertOutcome::Duplicate | InsertOutcome::Updated | InsertOutcome::Covered),
        covered: outcome == InsertOutcome::Covered,
        updated: outcome == InsertOutcome::Updated,
        is_new,
        replaced,
        answered_at,
    })
}

/// The error of an insert without an answer, which the database never leaves out.
pub(super) fn unanswered() -> Error {
    sqlx::Error::Protocol("an insert has no answer".to_owned()).into()
}
