//! Sending a batch over a connection, and making results of the answers.

use std::time::Duration;

use sqlx::PgConnection;

use super::Client;
use super::batch::FoldedBatch;
use super::parts::{insert_in_parts, is_large};
use crate::error::{Error, Rejection, Result};
use crate::store::{self, Answer, InsertBatch, RowOutcome, settle};
use crate::words::job::Inserted;

/// Inserts a batch, all or nothing. Answers once an input. `is_own`: the connection is in no transaction of the caller's.
pub(super) async fn send(
    client: &Client,
    connection: &mut PgConnection,
    batch: FoldedBatch,
    max_wait: Option<Duration>,
    is_own: bool,
) -> Result<Vec<Inserted>> {
    let FoldedBatch { mut batch, leaders } = batch;
    let statements = client.statements();
    let answers = if is_large(&batch)? {
        Box::pin(insert_in_parts(client, connection, batch, max_wait, is_own)).await?
    } else {
        settle!(is_own, connection, store::insert(connection, statements, &mut batch, max_wait))
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
    client: &Client,
    connection: &mut PgConnection,
    batch: FoldedBatch,
    max_wait: Duration,
) -> Result<Vec<Result<Inserted>>> {
    let FoldedBatch { batch, leaders } = batch;
    let mut batch = InsertBatch { is_each: true, ..batch };
    let answers = store::insert(connection, client.statements(), &mut batch, Some(max_wait)).await?;
    check_busy(&answers, Some(max_wait))?;
    let rejections = rejections(&answers, &leaders);
    let results = deal(answers, &leaders).into_iter().zip(rejections);
    let result = |(inserted, rejection): (Option<Inserted>, Option<Rejection>)| match rejection {
        Some(rejection) => Err(Error::Rejected(vec![Rejection { index: 0, ..rejection }])),
        None => answered(inserted),
    };
    Ok(results.map(result).collect())
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
