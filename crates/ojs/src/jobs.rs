//! Jobs: enqueued, shown, cancelled and activated.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::{Map, Value, json};
use uniqueue::{Client, Inserted, JobId, JobRow, JobState, NewJob};

use crate::answer::{Answer, Answered};
use crate::body::Object;
use crate::details::Details;
use crate::door::Door;
use crate::envelope::{self, Envelope, known_id};
use crate::fields::wrong;
use crate::problem::Problem;
use crate::retry::DEFAULT_ATTEMPTS;
use crate::{parents, show, state};

/// The most jobs of a batch.
const MAX_BATCH: usize = 1_000;

/// `POST /jobs`
pub(crate) async fn enqueue(State(door): State<Arc<Door>>, Object(body): Object) -> Answered {
    let envelope = envelope::read(&body)?;
    let id = envelope.id;
    let job = prepare(&door, vec![envelope]).await?.remove(0);
    let inserted = door.client.insert(job).await.map_err(|error| Problem::from(error).existing(id))?;
    let location = format!("/ojs/v1/jobs/{}", inserted.id());
    let answer = answer_of(&inserted);
    Ok(match inserted.duplicate {
        true => Answer::ok(answer),
        false => Answer::created(answer).at(location),
    })
}

fn answer_of(inserted: &Inserted) -> Value {
    let mut answer = json!({ "job": show::job(&inserted.job) });
    if inserted.duplicate {
        answer["deduplicated"] = json!(true);
    }
    if let Some(replaced) = inserted.replaced {
        answer["replaced_job_id"] = json!(replaced);
    }
    answer
}

/// Completes jobs: what they leave out comes from their registered kinds. A job of another kind gets OJS's number of attempts.
/// Gives queues the rates that jobs ask for.
pub(crate) async fn prepare(door: &Door, envelopes: Vec<Envelope>) -> Result<Vec<NewJob>, Problem> {
    // Each queue is set once: the last job that asks for a rate decides.
    let rates: BTreeMap<_, _> =
        envelopes.iter().filter_map(|one| one.rate.as_ref()).map(|rate| (&rate.queue, rate)).collect();
    for rate in rates.into_values() {
        door.set_rates.set(&door.client, rate).await?;
    }
    let mut jobs = Vec::with_capacity(envelopes.len());
    for envelope in envelopes {
        let job = envelope.job.id(envelope.id);
        let has_attempts = envelope.has_retry || door.kinds.knows(job.kind()).await?;
        let job = if has_attempts { job } else { job.max_attempts(DEFAULT_ATTEMPTS) };
        jobs.push(door.kinds.fill_in(job).await?);
    }
    Ok(jobs)
}

/// `POST /jobs/batch`: all or none.
pub(crate) async fn enqueue_batch(State(door): State<Arc<Door>>, Object(body): Object) -> Answered {
    let read = |(index, document)| envelope::read(document).map_err(|problem| problem.at_index(index));
    let envelopes = documents(&body, "jobs", MAX_BATCH)?.into_iter().enumerate().map(read);
    let jobs = prepare(&door, envelopes.collect::<Result<_, _>>()?).await?;
    let inserted = door.client.insert_many(jobs).await?;
    let shown: Vec<_> = inserted
        .iter()
        .map(|inserted| {
            let mut job = show::job(&inserted.job);
            if inserted.duplicate {
                job["deduplicated"] = json!(true);
            }
            job
        })
        .collect();
    Ok(Answer::created(json!({ "count": shown.len(), "jobs": shown })))
}

/// The objects of an array in a body.
pub(crate) fn documents<'a>(
    body: &'a Map<String, Value>,
    name: &str,
    most: usize,
) -> Result<Vec<&'a Map<String, Value>>, Problem> {
    let must_be = format!("an array of 1 to {most} objects");
    let given = body.get(name).unwrap_or(&Value::Null);
    let Some(items) = given.as_array().filter(|items| (1..=most).contains(&items.len())) else {
        return Err(wrong(name, &must_be, given));
    };
    let object = |item: &'a Value| item.as_object().ok_or_else(|| wrong(name, &must_be, item));
    items.iter().map(object).collect()
}

/// The row of a job, or the error that there is none.
pub(crate) async fn find(client: &Client, what: &str, id: JobId) -> Result<JobRow, Problem> {
    client.job(id).await?.ok_or_else(|| Problem::not_found(what, &id.to_string()))
}

/// `GET /jobs/{id}`
pub(crate) async fn show(State(door): State<Arc<Door>>, Path(id): Path<String>) -> Answered {
    let row = find(&door.client, "job", known_id("job", &id)?).await?;
    let mut shown = show::job(&row);
    let details = Details::of(&row.meta);
    if details.workflow.is_some() {
        let mut connection = door.client.pool().acquire().await?;
        if let Some(results) = parents::results(&door, &mut connection, &[(row.id, &details)]).await?.remove(&row.id) {
            shown["parent_results"] = results;
        }
    }
    Ok(Answer::ok(json!({ "job": shown })))
}

/// `DELETE /jobs/{id}`
pub(crate) async fn cancel(State(door): State<Arc<Door>>, Path(id): Path<String>) -> Answered {
    let id = known_id("job", &id)?;
    let before = find(&door.client, "job", id).await?;
    let was_cancelled = !before.state.is_final() && !door.client.cancel([id]).await?.is_empty();
    let row = find(&door.client, "job", id).await?;
    if !was_cancelled {
        return Err(in_wrong_state(&row, "cancelled", ""));
    }
    let mut shown = show::job(&row);
    shown["previous_state"] = json!(state::state_of(before.state, &before.errors));
    Ok(Answer::ok(json!({ "job": shown })))
}

/// `POST /jobs/{id}/activate`
pub(crate) async fn activate(State(door): State<Arc<Door>>, Path(id): Path<String>) -> Answered {
    let id = known_id("job", &id)?;
    let before = find(&door.client, "job", id).await?;
    let is_released = before.state == JobState::Pending && !door.client.release([id]).await?.is_empty();
    let row = find(&door.client, "job", id).await?;
    if !is_released {
        return Err(in_wrong_state(&row, "activated", ", not pending"));
    }
    let mut shown = show::job(&row);
    shown["activated_at"] = json!(crate::times::text(row.scheduled_at));
    shown["previous_state"] = json!("pending");
    Ok(Answer::ok(json!({ "job": shown })))
}

fn in_wrong_state(row: &JobRow, verb: &str, but: &str) -> Problem {
    let (id, state) = (row.id, state::state_name(row.state));
    Problem::conflict(format!("job {id} cannot be {verb}: its state is {state}{but}"))
        .detail("job_id", id.to_string())
        .detail("current_state", state)
}
