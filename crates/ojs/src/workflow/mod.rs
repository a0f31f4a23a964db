//! Workflows: chains, groups, batches with callbacks, and graphs of named steps, also in each other. Their jobs wait for each
//! other in the queue (`after`), so a workflow goes on without this door.

mod plan;
mod show;
mod state;

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::json;
use time::OffsetDateTime;
use tokio_util::task::AbortOnDropHandle;
use uniqueue::{JobFilter, JobId, JobRow};
use uuid::Uuid;

use self::plan::Plan;
pub(crate) use self::plan::read as plan;
use self::show::{progress_of, shown};
pub(crate) use self::state::Part;
use self::state::{Jobs, Progress, started_at};
use crate::answer::{Answer, Answered};
use crate::body::Object;
use crate::door::Door;
use crate::jobs::prepare;
use crate::problem::Problem;
use crate::store::{JobProgress, OF_IDS, RUNNING_AFTER, Store, Workflow};
use crate::times;

/// The interval of the search for workflows that have ended.
const SETTLE_EVERY: std::time::Duration = std::time::Duration::from_secs(60);

/// The most jobs of many workflows that one statement reads.
const JOBS_AT_ONCE: usize = 5_000;

/// `POST /workflows`
pub(crate) async fn create(State(door): State<Arc<Door>>, Object(body): Object) -> Answered {
    // Made as the ids of its jobs, so it comes before them.
    let id = JobId::generate().as_uuid();
    let Plan { kind, name, parts, envelopes } = plan(&body, id)?;
    let jobs = prepare(&door, envelopes).await?;
    let mut tx = door.client.pool().begin().await?;
    let inserted = door.client.insert_many(jobs).tx(&mut tx).await?;
    // A job that is a duplicate stands for the holder of its key.
    let jobs = inserted.iter().map(|inserted| inserted.id()).collect();
    let first = inserted.iter().find(|inserted| !inserted.duplicate);
    let created_at = first.map_or_else(OffsetDateTime::now_utc, |first| first.job.created_at);
    let (kind, state) = (kind.to_owned(), "running".to_owned());
    let workflow = Workflow { id, kind, name, parts, jobs, state, created_at, ended_at: None };
    door.store.add_workflow(&workflow).tx(&mut tx).await?;
    tx.commit().await?;
    let rows: Vec<_> = inserted.iter().map(|inserted| Some(&inserted.job)).collect();
    Ok(Answer::created(json!({ "workflow": shown(&workflow, &rows) })).at(format!("/ojs/v1/workflows/{id}")))
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
        room = room.saturating_sub(workflow.jobs.len());
        has_room
    };
    let read: Vec<_> = workflows.into_iter().take_while(has_room).collect();
    let all = store.progress_of(&read.iter().flat_map(|of| of.jobs.clone()).collect::<Vec<_>>()).await?;
    let mut loaded = Vec::with_capacity(read.len());
    for workflow in read {
        let jobs: Vec<Option<JobProgress>> = workflow.jobs.iter().map(|id| all.get(id).copied()).collect();
        let began = started_at(workflow.created_at, &jobs);
        loaded.push((note_end(store, workflow, &jobs).await?, began));
    }
    Ok(loaded)
}

/// Notes the end of a workflow whose jobs have ended.
async fn note_end(store: &Store, mut workflow: Workflow, jobs: &Jobs) -> Result<Workflow, Problem> {
    let state = Progress::of(&workflow.parts, jobs).state;
    if workflow.state == "running" && state != "running" {
        store.end_workflow(workflow.id, state).await?;
        workflow.state = state.to_owned();
        workflow.ended_at = Some(OffsetDateTime::now_utc());
    }
    Ok(workflow)
}

/// A workflow with the rows of its jobs. A workflow that has just ended is noted as ended.
async fn find(door: &Door, id: &str) -> Result<(Workflow, HashMap<JobId, JobRow>), Problem> {
    let not_found = || Problem::not_found("workflow", id);
    let uuid = Uuid::try_parse(id).map_err(|_| not_found())?;
    let workflow = door.store.workflows(OF_IDS, json!({ "ids": [uuid] })).await?.pop().ok_or_else(not_found)?;
    let most = u32::try_from(workflow.jobs.len()).unwrap_or(u32::MAX);
    let rows = door.client.jobs(JobFilter::new().ids(&workflow.jobs).limit(most)).await?;
    let rows = rows.into_iter().map(|row| (row.id, row)).collect();
    let jobs = progress_of(&by_place(&workflow, &rows));
    Ok((note_end(&door.store, workflow, &jobs).await?, rows))
}

fn by_place<'r>(workflow: &Workflow, rows: &'r HashMap<JobId, JobRow>) -> Vec<Option<&'r JobRow>> {
    workflow.jobs.iter().map(|id| rows.get(id)).collect()
}

/// `GET /workflows/{id}`
pub(crate) async fn show(State(door): State<Arc<Door>>, Path(id): Path<String>) -> Answered {
    let (workflow, rows) = find(&door, &id).await?;
    Ok(Answer::ok(json!({ "workflow": shown(&workflow, &by_place(&workflow, &rows)) })))
}

/// `DELETE /workflows/{id}`: cancels the jobs that have not ended.
pub(crate) async fn cancel(State(door): State<Arc<Door>>, Path(id): Path<String>) -> Answered {
    let (workflow, _) = find(&door, &id).await?;
    if workflow.state != "running" || !door.store.end_workflow(workflow.id, "cancelled").await? {
        return Err(Problem::conflict(format!("workflow {id} has ended: its state is {}", workflow.state))
            .detail("current_state", workflow.state));
    }
    let cancelled = door.client.cancel(workflow.jobs).await?.len();
    let (workflow, rows) = find(&door, &id).await?;
    let rows = by_place(&workflow, &rows);
    let mut shown = shown(&workflow, &rows);
    shown["steps_cancelled"] = json!(cancelled);
    shown["steps_already_completed"] = json!(Progress::of(&workflow.parts, &progress_of(&rows)).completed);
    shown["cancelled_at"] = json!(workflow.ended_at.map(times::text));
    Ok(Answer::ok(json!({ "workflow": shown })))
}

/// Notes the ends of running workflows.
async fn settle(store: &Store) -> Result<(), Problem> {
    let mut after = Uuid::nil();
    loop {
        let loaded = load_all(store, store.workflows(RUNNING_AFTER, json!({ "after": after })).await?).await?;
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
