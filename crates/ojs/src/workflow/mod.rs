//! Workflows: chains, groups, batches with callbacks, and graphs of named steps, also in each other. Their jobs wait for each
//! other in the queue (`after`), so a workflow goes on without this door.

mod plan;
mod show;
mod state;

use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::json;
use time::OffsetDateTime;
use tokio_util::task::AbortOnDropHandle;
use uniqueue::{Client, JobFilter, JobId};
use uuid::Uuid;

pub(crate) use self::plan::read as plan;
use self::show::shown;
use self::state::{Jobs, Progress, Progresses, started_at};
pub(crate) use self::state::{Part, ids};
use crate::answer::{Answer, Answered};
use crate::body::Object;
use crate::door::Door;
use crate::jobs::prepare;
use crate::problem::Problem;
use crate::store::{Store, Workflow};
use crate::times;

/// The time between two looks for workflows that have ended, and the number of workflows that one statement reads.
const SETTLE_EVERY: std::time::Duration = std::time::Duration::from_secs(60);
const PAGE: i64 = 500;

/// The most jobs of many workflows that one statement reads.
const JOBS_AT_ONCE: usize = 5_000;

/// `POST /workflows`
pub(crate) async fn create(State(door): State<Arc<Door>>, Object(body): Object) -> Answered {
    // Made as the ids of its jobs, so it comes before them.
    let id = JobId::generate().as_uuid();
    let mut plan = plan(&body, id)?;
    let jobs = prepare(&door, plan.take_envelopes()).await?;
    let jobs = plan.connect(jobs);
    let mut tx = door.store.pool.begin().await?;
    let inserted = door.client.insert_many(jobs).tx(&mut tx).await?;
    // A job that is a duplicate stands for the holder of its key.
    let mut ids = inserted.iter().map(|inserted| inserted.id());
    plan.parts.iter_mut().for_each(|part| part.identify(&mut ids));
    let first = inserted.iter().find(|inserted| !inserted.duplicate);
    let created_at = first.map_or_else(OffsetDateTime::now_utc, |first| first.job.created_at);
    let (kind, after, state) = (plan.kind.to_owned(), plan.after(), "running".to_owned());
    let workflow = Workflow { id, kind, name: plan.name, parts: plan.parts, after, state, created_at, ended_at: None };
    door.store.add_workflow(&mut tx, &workflow).await?;
    tx.commit().await?;
    let jobs = Jobs::of(inserted.into_iter().map(|inserted| inserted.job));
    Ok(Answer::created(json!({ "workflow": shown(&workflow, &jobs) })).at(format!("/ojs/v1/workflows/{id}")))
}

/// The first of these workflows, at least one, until a number of jobs is reached, each with the start of its first job. How far
/// the jobs are is read in one statement.
pub(crate) async fn load_all(
    store: &Store,
    workflows: Vec<Workflow>,
) -> Result<Vec<(Workflow, Option<OffsetDateTime>)>, Problem> {
    let mut room = JOBS_AT_ONCE;
    let has_room = |workflow: &Workflow| {
        let has_room = room > 0;
        room = room.saturating_sub(ids(&workflow.parts).len());
        has_room
    };
    let read: Vec<_> = workflows.into_iter().take_while(has_room).collect();
    let all = store.progress_of(&read.iter().flat_map(|of| ids(&of.parts)).collect::<Vec<_>>()).await?;
    let mut loaded = Vec::with_capacity(read.len());
    for workflow in read {
        // The holder of a unique key can be a job of several workflows.
        let jobs = ids(&workflow.parts).into_iter();
        let progress: Progresses = jobs.filter_map(|id| Some((id, *all.get(&id)?))).collect();
        let workflow = note_end(store, workflow, &progress).await?;
        let began = started_at(workflow.created_at, &progress);
        loaded.push((workflow, began));
    }
    Ok(loaded)
}

async fn jobs_of(client: &Client, ids: Vec<JobId>) -> Result<Jobs, Problem> {
    if ids.is_empty() {
        return Ok(Jobs::of([]));
    }
    let most = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    Ok(Jobs::of(client.jobs(JobFilter::new().ids(ids).limit(most)).await?))
}

/// Notes the end of a workflow whose jobs have ended.
async fn note_end(store: &Store, mut workflow: Workflow, jobs: &Progresses) -> Result<Workflow, Problem> {
    let progress = Progress::of(&workflow.parts, jobs);
    if workflow.state == "running" && progress.state() != "running" {
        store.end_workflow(workflow.id, progress.state()).await?;
        workflow.state = progress.state().to_owned();
        workflow.ended_at = Some(OffsetDateTime::now_utc());
    }
    Ok(workflow)
}

/// A workflow with the rows of its jobs. A workflow that has just ended is noted as ended.
async fn find(door: &Door, id: &str) -> Result<(Workflow, Jobs), Problem> {
    let not_found = || Problem::not_found("workflow", id);
    let uuid = Uuid::try_parse(id).map_err(|_| not_found())?;
    let workflow = door.store.workflows(&door.store.pool, &[uuid]).await?.pop().ok_or_else(not_found)?;
    let jobs = jobs_of(&door.client, ids(&workflow.parts)).await?;
    Ok((note_end(&door.store, workflow, &jobs.progress).await?, jobs))
}

/// `GET /workflows/{id}`
pub(crate) async fn show(State(door): State<Arc<Door>>, Path(id): Path<String>) -> Answered {
    let (workflow, jobs) = find(&door, &id).await?;
    Ok(Answer::ok(json!({ "workflow": shown(&workflow, &jobs) })))
}

/// `DELETE /workflows/{id}`: cancels the jobs that have not ended.
pub(crate) async fn cancel(State(door): State<Arc<Door>>, Path(id): Path<String>) -> Answered {
    let (workflow, _) = find(&door, &id).await?;
    if workflow.state != "running" || !door.store.end_workflow(workflow.id, "cancelled").await? {
        return Err(Problem::conflict(format!("workflow {id} has ended: its state is {}", workflow.state))
            .detail("current_state", workflow.state));
    }
    let cancelled = door.client.cancel(ids(&workflow.parts)).await?.len();
    let (workflow, jobs) = find(&door, &id).await?;
    let mut shown = shown(&workflow, &jobs);
    shown["steps_cancelled"] = json!(cancelled);
    shown["steps_already_completed"] = json!(Progress::of(&workflow.parts, &jobs.progress).completed);
    shown["cancelled_at"] = json!(workflow.ended_at.map(times::text));
    Ok(Answer::ok(json!({ "workflow": shown })))
}

/// Notes the ends of running workflows.
async fn settle(store: &Store) -> Result<(), Problem> {
    let mut after = Uuid::nil();
    loop {
        let loaded = load_all(store, store.running_workflows(after, PAGE).await?).await?;
        let Some((last, _)) = loaded.last() else { return Ok(()) };
        after = last.id;
    }
}

/// Notes the ends of workflows that no client asks for, before retention deletes their jobs. It stops when the handle is dropped.
pub(crate) fn start_settling(store: Store) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            if let Err(error) = settle(&store).await {
                tracing::warn!(?error, "the ends of workflows could not be noted, trying again");
            }
            tokio::time::sleep(SETTLE_EVERY).await;
        }
    }))
}
