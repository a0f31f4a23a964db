//! Pushing jobs.

use std::collections::{BTreeMap, HashSet};

use serde_json::value::RawValue;
use uniqueue::{Inserted, NewJob};

use crate::command::Named;
use crate::door::Door;
use crate::payload::Payload;
use crate::reply::{Refusal, parse};

/// Pushes one job.
pub(crate) async fn push(door: &Door, payload: Payload) -> Result<(), Refusal> {
    let job = prepare(door, payload).await?;
    answer(&door.client.insert(job).await?)
}

/// Pushes many jobs. Returns the ids of the refused jobs, with the reasons.
pub(crate) async fn push_many(door: &Door, items: &[Box<RawValue>]) -> Result<BTreeMap<String, String>, Refusal> {
    let mut refused = BTreeMap::new();
    let (mut jids, mut jobs) = (Vec::new(), Vec::new());
    for item in items {
        // The depth of the whole command was checked.
        match parse::<Payload>("PUSHB", item.get()) {
            Ok(payload) => {
                let jid = payload.jid.clone();
                match prepare(door, payload).await {
                    Ok(job) => {
                        jids.push(jid);
                        jobs.push(job);
                    }
                    Err(refusal) => note(&mut refused, jid, &refusal),
                }
            }
            // A job with a member of the wrong type is refused by its id. One without an id fails the command.
            Err(refusal) => {
                let Named { jid } = parse("PUSHB", item.get())?;
                note(&mut refused, jid, &refusal);
            }
        }
    }
    let answers: Vec<Result<(), Refusal>> = loop {
        match door.client.insert_many(jobs.clone()).await {
            Ok(inserted) => break inserted.iter().map(answer).collect(),
            // Duplicates that a registered kind rejects must not refuse the other jobs of the command.
            Err(error) if error.is_duplicate() => {
                let rejected: HashSet<_> = error.rejections().iter().map(|rejection| rejection.index).collect();
                let all = jids.into_iter().zip(jobs).enumerate();
                let (out, rest): (Vec<_>, Vec<_>) = all.partition(|(index, _)| rejected.contains(index));
                out.into_iter().for_each(|(_, (jid, _))| note(&mut refused, jid, &Refusal::not_unique()));
                (jids, jobs) = rest.into_iter().map(|(_, pair)| pair).unzip();
            }
            // A full queue must not refuse the jobs of other queues.
            Err(uniqueue::Error::QueueFull { .. }) => break one_by_one(door, jobs).await,
            Err(error) => return Err(error.into()),
        }
    };
    for (jid, answer) in jids.into_iter().zip(answers) {
        if let Err(refusal) = answer {
            note(&mut refused, jid, &refusal);
        }
    }
    Ok(refused)
}

async fn one_by_one(door: &Door, jobs: Vec<NewJob>) -> Vec<Result<(), Refusal>> {
    let mut answers = Vec::with_capacity(jobs.len());
    for job in jobs {
        let inserted = door.client.insert(job).await.map_err(Refusal::from);
        answers.push(inserted.and_then(|inserted| answer(&inserted)));
    }
    answers
}

fn note(refused: &mut BTreeMap<String, String>, jid: String, refusal: &Refusal) {
    // Clients look for the code of a duplicate. Other errors have their text alone.
    let text = if refusal.code == "ERR" { refusal.text.clone() } else { refusal.to_string() };
    refused.insert(jid, text);
}

/// The job that is inserted, with what its registered kind says.
async fn prepare(door: &Door, payload: Payload) -> Result<NewJob, Refusal> {
    let is_registered = door.kinds.knows(&payload.jobtype).await?;
    let job = door.kinds.fill_in(payload.job(is_registered)?).await?;
    // A FETCH names its queues with white space between.
    match job.queue_name().filter(|queue| queue.contains(|c: char| c.is_ascii_whitespace())) {
        Some(queue) => Err(Refusal::new(format!("invalid queue: must have no white space: {queue:?}"))),
        None => Ok(job),
    }
}

/// Whether a job is there, or will run again.
fn answer(inserted: &Inserted) -> Result<(), Refusal> {
    match inserted.duplicate && !inserted.updated && !inserted.covered {
        true => Err(Refusal::not_unique()),
        false => Ok(()),
    }
}
