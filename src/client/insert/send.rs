//! Sending a batch over a connection, and making results of the answers.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::PgConnection;

use super::Client;
use super::batch::Batch;
use crate::error::{Error, Rejection, Result};
use crate::ident::JobId;
use crate::job::Inserted;
use crate::store::{self, Answer, Outcome, settle};

/// Inserts a batch, all or nothing. Answers once an input. `is_own`: the connection is in no transaction of the caller's.
pub(super) async fn send(
    client: &Client,
    connection: &mut PgConnection,
    batch: Batch,
    max_wait: Option<Duration>,
    is_own: bool,
) -> Result<Vec<Inserted>> {
    let (mut rows, leaders) = batch.into_parts();
    let ids: Vec<_> = rows.rows.iter().map(|row| row.id).collect();
    let statements = client.statements();
    let answers = settle!(is_own, connection, store::insert(connection, statements, &mut rows, max_wait));
    let is = |wanted: Outcome| move |answer: &Option<Answer>| answer.as_ref().is_some_and(|a| a.outcome == wanted);
    if answers.iter().any(is(Outcome::Busy)) {
        return Err(Error::Busy { waited: max_wait.unwrap_or_default() });
    }
    if answers.iter().any(is(Outcome::Rejected)) {
        return Err(rejected(&answers, &ids, &leaders));
    }
    let results = deal(answers, &leaders).into_iter();
    results.map(|inserted| inserted.ok_or_else(|| sqlx::Error::RowNotFound.into())).collect()
}

/// Inserts a batch of which each row is settled for itself. `None`: the input's key takes a statement of its own.
pub(super) async fn send_each(
    client: &Client,
    connection: &mut PgConnection,
    batch: Batch,
    max_wait: Duration,
) -> Result<Vec<Option<Inserted>>> {
    if batch.in_order {
        let inserted = send(client, connection, batch, Some(max_wait), true).await?;
        return Ok(inserted.into_iter().map(Some).collect());
    }
    let (rows, leaders) = batch.into_parts();
    let answers = store::insert_each(connection, client.statements(), rows, max_wait).await?;
    Ok(deal(answers, &leaders))
}

/// The error that names every duplicate of a batch.
fn rejected(answers: &[Option<Answer>], ids: &[JobId], leaders: &[usize]) -> Error {
    let place_of: HashMap<_, _> = ids.iter().enumerate().map(|(place, id)| (*id, place)).collect();
    let rejections = leaders.iter().enumerate().filter_map(|(index, leader)| {
        let answer = answers[*leader].as_ref()?;
        let duplicate = answer.job.as_ref()?.claim_at(answer.answered_at)?;
        let earlier = place_of.get(&duplicate.holder).copied();
        Some(Rejection::new(index, earlier, duplicate))
    });
    Error::Rejected(rejections.collect())
}

/// Gives every input the answer of the row that was sent for it. The first gets what became of the row. Those that were
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
            duplicate: !is_first || matches!(answer.outcome, Outcome::Duplicate | Outcome::Updated | Outcome::Covered),
            covered: answer.outcome == Outcome::Covered,
            updated: answer.outcome == Outcome::Updated,
            replaced: answer.replaced.filter(|_| is_first),
            answered_at: answer.answered_at,
        })
    };
    leaders.iter().map(deal).collect()
}
