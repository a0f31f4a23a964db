//! Workers: fetch, report and send heartbeats.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use uniqueue::{JobError, JobFilter, JobRow, JobState};
use uniqueue_remote::{FetchedJob, JobResult, JobRun, Remote};

use crate::answer::{Answer, Answered};
use crate::body::Object;
use crate::deadlines::with_delay;
use crate::details::Details;
use crate::door::Door;
use crate::envelope::known_id;
use crate::exact;
use crate::fields::{Fields, text, whole, wrong};
use crate::jobs::find;
use crate::problem::Problem;
use crate::reservations::{self, Held, LONGEST, NAMELESS, not_active, reserve};
use crate::{parents, show, state, times};

/// The most jobs of a fetch, and of a heartbeat.
const MOST: u32 = 1_000;

/// How long a result is sent again while another transaction locks its job.
const MOST_LOCKED: Duration = Duration::from_millis(1_500);

/// `POST /workers/fetch`
pub(crate) async fn fetch(State(door): State<Arc<Door>>, Object(body): Object) -> Answered {
    let fields = Fields::new(&body, None)?;
    // A fetch without a name takes reports of any worker.
    let named = worker(fields)?.map(str::to_owned);
    let queues = names(&body, "queues", 1)?;
    let count = fields.get("count").map_or(Ok(1), |count| whole("count", MOST, count))?;
    let asked = fields.length("visibility_timeout_ms", "visibility_timeout")?;
    // In one transaction, so that no job is fetched whose parents cannot be read.
    let mut tx = door.client.pool().begin().await?;
    let fetched_at = Instant::now();
    let jobs = Remote::new(&door.client)
        .fetch_jobs(queues, named.as_deref().unwrap_or(NAMELESS))
        .count(count)
        .reserve(asked.unwrap_or(reservations::DEFAULT_RESERVATION).clamp(Duration::from_secs(1), LONGEST))
        .reserve_each(move |job| Some(at_fetch(&Details::of(&job.meta), asked)))
        .tx(&mut tx)
        .await?;
    let jobs: Vec<_> = jobs.into_iter().map(|job| (Details::of(&job.meta), job)).collect();
    let children: Vec<_> = jobs.iter().map(|(details, job)| (job.run.id, details)).collect();
    let mut results = parents::results(&door, &mut tx, &children).await?;
    tx.commit().await?;
    let (mut shown, mut held) = (Vec::new(), Vec::new());
    for (details, job) in jobs {
        let FetchedJob { run, attempt, reserved_until, .. } = job;
        let own = at_fetch(&details, asked);
        let mut answer = show::fetched(&job, &details, reserved_until.map(|until| until - own));
        answer.extend(results.remove(&run.id).map(|results| ("parent_results".to_owned(), results)));
        shown.push(Value::Object(answer));
        let deadline = details.timeout().map(|timeout| fetched_at + timeout);
        let (worker, until) = (named.clone(), fetched_at + own);
        held.push(Held { run, worker, attempt, details, deadline, until });
    }
    door.runs.add(held);
    Ok(Answer::ok(json!({ "jobs": shown })))
}

/// How long a fetch reserves a job.
fn at_fetch(details: &Details, asked: Option<Duration>) -> Duration {
    reserve(details, asked, details.timeout())
}

/// `POST /workers/ack`
pub(crate) async fn ack(State(door): State<Arc<Door>>, Object(body): Object) -> Answered {
    let held = reported(&door, &body).await?;
    let mut result = JobResult::complete(held.run);
    if let Some(output) = body.get("result").filter(|output| !output.is_null()) {
        result = result.output(exact::plain("result", output)?);
    }
    let row = finish(&door, &held, result).await?;
    Ok(Answer::ok(report(&row)))
}

/// `POST /workers/nack`
pub(crate) async fn nack(State(door): State<Arc<Door>>, Object(body): Object) -> Answered {
    let held = reported(&door, &body).await?;
    let fields = Fields::new(&body, None)?;
    if fields.is_set("requeue")? {
        let row = finish(&door, &held, JobResult::give_back(held.run)).await?;
        return Ok(Answer::ok(report(&row)));
    }
    let Some(error) = fields.object("error")? else {
        return Err(Problem::missing("error"));
    };
    let class = error_text("details.error_class", error.get("details").and_then(|details| details.get("error_class")))?;
    let of_type = error_text("type", error.get("type"))?.or(class);
    let code = error_text("code", error.get("code"))?.unwrap_or("handler_error");
    let message = error_text("message", error.get("message"))?.unwrap_or("the worker reported no message");
    let policy = held.policy();
    let names: Vec<_> = [Some(code), of_type, class].into_iter().flatten().collect();
    let is_permanent =
        error.get("retryable") == Some(&Value::Bool(false)) || policy.is_some_and(|policy| policy.is_permanent(&names));
    let mut failure = JobError::new(message.to_owned()).code(code).error_type(of_type.unwrap_or(code));
    if let Some(details) = error.get("details").filter(|details| !details.is_null()) {
        failure = failure.details(exact::plain("error.details", details)?);
    }
    if is_permanent {
        failure = failure.permanent();
    }
    let row = finish(&door, &held, JobResult::fail(held.run, with_delay(failure, &held))).await?;
    Ok(Answer::ok(report(&row)))
}

/// A text of an error, unless it is empty.
fn error_text<'a>(name: &str, given: Option<&'a Value>) -> Result<Option<&'a str>, Problem> {
    Ok(text(&format!("error.{name}"), given)?.filter(|text| !text.is_empty()))
}

/// The run that a report is about.
async fn reported(door: &Door, body: &Map<String, Value>) -> Result<Held, Problem> {
    let fields = Fields::new(body, None)?;
    let Some(id) = fields.text("job_id")? else {
        return Err(Problem::missing("job_id"));
    };
    door.runs.find(&door.client, known_id("job", id)?, worker(fields)?).await
}

/// Ends a run, and returns the job as it is now.
async fn finish(door: &Door, held: &Held, result: JobResult) -> Result<JobRow, Problem> {
    let finished = door.results.finish(result, MOST_LOCKED).await?;
    if finished.locked {
        return Err(Problem::locked(held.run.id));
    }
    door.runs.remove(held.run);
    let row = find(&door.client, "job", held.run.id).await;
    match finished.counted {
        true => row,
        false => Err(not_active(&row?)),
    }
}

/// The answer to a report.
fn report(row: &JobRow) -> Value {
    let Value::Object(job) = show::job(row) else { return Value::Null };
    let mut answer = json!({
        "acknowledged": true, "id": row.id, "job_id": row.id, "state": state::state_name(row.state),
        "attempt": row.attempt, "max_attempts": row.max_attempts,
    });
    let wait = (row.state == JobState::Retryable).then_some("retry_delay_ms");
    for name in ["completed_at", "discarded_at", "next_attempt_at"].into_iter().chain(wait) {
        if let Some(value) = job.get(name) {
            answer[name] = value.clone();
        }
    }
    answer
}

/// `POST /workers/heartbeat`
pub(crate) async fn heartbeat(State(door): State<Arc<Door>>, Object(body): Object) -> Answered {
    let fields = Fields::new(&body, None)?;
    let Some(worker) = worker(fields)? else {
        return Err(Problem::missing("worker_id"));
    };
    let asked = fields.length("visibility_timeout_ms", "visibility_timeout")?;
    let ids = names(&body, "active_jobs", 0)?.into_iter().filter_map(|id| known_id("job", &id).ok());
    let ids: Vec<_> = ids.collect();
    let mut held: Vec<_> = ids.iter().filter_map(|id| door.runs.get(*id)).collect();
    let unknown: Vec<_> = ids.iter().copied().filter(|id| !held.iter().any(|held| held.run.id == *id)).collect();
    if !unknown.is_empty() {
        let most = u32::try_from(unknown.len()).unwrap_or(u32::MAX);
        let running = JobFilter::new().ids(unknown).states(JobState::Running);
        let rows = door.client.jobs(running.limit(most)).await?;
        held.extend(reservations::of_rows(&door.client, &rows).await?);
    }
    held.retain(|held| held.worker.as_deref().is_none_or(|by| by == worker));
    let mut wanted: BTreeMap<Duration, Vec<JobRun>> = BTreeMap::new();
    for held in &held {
        wanted.entry(held.reserve(asked)).or_default().push(held.run);
    }
    let mut extended = Vec::new();
    for (reserve, runs) in wanted {
        let until = Instant::now() + reserve;
        for answer in Remote::new(&door.client).extend_jobs(runs, reserve).await? {
            match answer.counted {
                true => {
                    door.runs.extend(answer.run, until);
                    extended.push(answer.run.id);
                }
                false => door.runs.remove(answer.run),
            }
        }
    }
    let directive = match door.store.directive(worker).await? {
        Some(directive) => directive,
        None => held.iter().find_map(|held| held.details.directive()).unwrap_or("running").to_owned(),
    };
    Ok(Answer::ok(json!({
        "state": directive, "directive": directive, "jobs_extended": extended, "server_time": times::text(OffsetDateTime::now_utc()),
    })))
}

/// `PUT /workers/{id}/directive`: tells a worker to go on (`running`), to fetch no more (`quiet`) or to stop (`terminate`).
pub(crate) async fn direct(
    State(door): State<Arc<Door>>,
    Path(worker): Path<String>,
    Object(body): Object,
) -> Answered {
    let given = body.get("state").cloned().unwrap_or_default();
    let state = match given.as_str() {
        Some("running") => None,
        Some(state @ ("quiet" | "terminate")) => Some(state),
        _ => return Err(wrong("state", "running, quiet or terminate", &given)),
    };
    check_worker("worker", &worker)?;
    door.store.set_directive(&worker, state).await?;
    Ok(Answer::ok(json!({ "worker_id": worker, "state": given })))
}

/// The worker that a request names.
fn worker<'a>(fields: Fields<'a>) -> Result<Option<&'a str>, Problem> {
    let worker = fields.text("worker_id")?;
    worker.map(|worker| check_worker("worker_id", worker)).transpose()
}

fn check_worker<'a>(field: &str, worker: &'a str) -> Result<&'a str, Problem> {
    match worker.len() {
        1..=128 => Ok(worker),
        _ => Err(wrong(field, "a name of 1 to 128 bytes", &json!(worker))),
    }
}

/// An array of texts in a body.
fn names(body: &Map<String, Value>, name: &str, least: usize) -> Result<Vec<String>, Problem> {
    let given = body.get(name).unwrap_or(&Value::Null);
    match exact::texts(given) {
        Some(names) if (least..=MOST as usize).contains(&names.len()) => Ok(names),
        None if given.is_null() && least == 0 => Ok(Vec::new()),
        _ => Err(wrong(name, &format!("an array of {least} to {MOST} strings"), given)),
    }
}
