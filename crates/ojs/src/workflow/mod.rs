//! Workflows: chains, groups, batches with callbacks, and graphs of named steps. Their jobs wait for each other in the queue
//! (`after`), so a workflow goes on without this door.

mod plan;
mod state;

use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio_util::task::AbortOnDropHandle;
use uniqueue::{Client, JobFilter, JobId, JobState, StateSet};
use uuid::Uuid;

use self::plan::Plan;
use self::state::{Part, Progress, Rows};
use crate::answer::{Answer, Answered};
use crate::body::Object;
use crate::door::Door;
use crate::jobs::prepare;
use crate::problem::Problem;
use crate::state::state_of;
use crate::store::{Store, Workflow};
use crate::times;

/// The time between two looks for workflows that have ended, and the number of workflows that one statement reads.
const SETTLE_EVERY: std::time::Duration = std::time::Duration::from_secs(60);
const PAGE: i64 = 500;

/// `POST /workflows`
pub(crate) async fn create(State(door): State<Arc<Door>>, Object(body): Object) -> Answered {
    let id = Uuid::now_v7();
    let Plan { kind, name, envelopes, edges, parts } = plan::read(&body, id)?;
    let jobs = plan::connect(prepare(&door, envelopes).await?, &edges);
    let mut tx = door.store.pool.begin().await?;
    let inserted = door.client.insert_many(jobs).tx(&mut tx).await?;
    // A job that is a duplicate stands for the holder of its key.
    let parts: Vec<_> = parts.into_iter().zip(&inserted).map(|(part, job)| Part { job: job.id(), ..part }).collect();
    let created_at = inserted.first().map_or_else(OffsetDateTime::now_utc, |first| first.job.created_at);
    let stored = serde_json::to_value(&parts).map_err(|error| Problem::invalid(error.to_string()))?;
    let (state, ended_at) = ("running".to_owned(), None);
    let workflow = Workflow { id, kind: kind.to_owned(), name, parts: stored, state, created_at, ended_at };
    door.store.add_workflow(&mut tx, &workflow).await?;
    tx.commit().await?;
    let rows = inserted.into_iter().map(|inserted| (inserted.job.id, inserted.job)).collect();
    let shown = shown(&workflow, &parts, &rows);
    Ok(Answer::created(json!({ "workflow": shown })).at(format!("/ojs/v1/workflows/{id}")))
}

/// A workflow with the rows of its jobs. A workflow that has just ended is noted as ended.
async fn load(client: &Client, store: &Store, mut workflow: Workflow) -> Result<(Workflow, Vec<Part>, Rows), Problem> {
    let parts: Vec<Part> = serde_json::from_value(workflow.parts.clone()).unwrap_or_default();
    let ids: Vec<JobId> = parts.iter().map(|part| part.job).collect();
    let most = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    let rows = client.jobs(JobFilter::new().ids(ids)).limit(most).await?;
    let rows: Rows = rows.into_iter().map(|row| (row.id, row)).collect();
    let progress = Progress::of(&parts, &rows);
    if workflow.state == "running" && progress.state() != "running" {
        store.end_workflow(workflow.id, progress.state()).await?;
        workflow.state = progress.state().to_owned();
        workflow.ended_at = Some(OffsetDateTime::now_utc());
    }
    Ok((workflow, parts, rows))
}

async fn find(door: &Door, id: &str) -> Result<(Workflow, Vec<Part>, Rows), Problem> {
    let not_found = || Problem::not_found("workflow", id);
    let uuid = Uuid::try_parse(id).map_err(|_| not_found())?;
    let workflow = door.store.workflow(uuid).await?.ok_or_else(not_found)?;
    load(&door.client, &door.store, workflow).await
}

/// `GET /workflows/{id}`
pub(crate) async fn show(State(door): State<Arc<Door>>, Path(id): Path<String>) -> Answered {
    let (workflow, parts, rows) = find(&door, &id).await?;
    Ok(Answer::ok(json!({ "workflow": shown(&workflow, &parts, &rows) })))
}

/// `DELETE /workflows/{id}`: cancels the jobs that have not ended.
pub(crate) async fn cancel(State(door): State<Arc<Door>>, Path(id): Path<String>) -> Answered {
    let (workflow, parts, _) = find(&door, &id).await?;
    if workflow.state != "running" || !door.store.end_workflow(workflow.id, "cancelled").await? {
        return Err(Problem::conflict(format!("workflow {id} has ended: its state is {}", workflow.state))
            .detail("current_state", workflow.state));
    }
    let ids: Vec<_> = parts.iter().map(|part| part.job).collect();
    let cancelled = door.client.cancel(ids).await?.len();
    let (workflow, parts, rows) = find(&door, &id).await?;
    let mut shown = shown(&workflow, &parts, &rows);
    shown["steps_cancelled"] = json!(cancelled);
    shown["steps_already_completed"] = json!(Progress::of(&parts, &rows).completed);
    shown["cancelled_at"] = json!(workflow.ended_at.map(times::text));
    Ok(Answer::ok(json!({ "workflow": shown })))
}

/// A workflow as OJS shows it.
fn shown(workflow: &Workflow, parts: &[Part], rows: &Rows) -> Value {
    let Workflow { id, kind, name, state, created_at, ended_at, .. } = workflow;
    let progress = Progress::of(parts, rows);
    let item = |part: &Part| {
        let row = rows.get(&part.job);
        let mut shown = json!({ "id": part.name, "job_id": part.job, "role": part.role });
        match row {
            Some(row) => {
                shown["type"] = json!(row.kind.as_str());
                shown["state"] = json!(state_of(row.state, &row.errors));
                shown["started_at"] = json!(row.attempted_at.map(times::text));
                shown["completed_at"] = json!(row.finalized_at.map(times::text));
                shown["result"] = row.output.clone().unwrap_or_default();
            }
            // The retention of its queue deleted it.
            None => shown["state"] = json!("deleted"),
        }
        shown
    };
    let items: Vec<_> = parts.iter().map(item).collect();
    let mut shown = json!({
        "id": id, "type": kind, "name": name, "state": state, "created_at": times::text(*created_at),
    });
    let plural = if ["chain", "graph"].contains(&kind.as_str()) { "steps" } else { "jobs" };
    shown[plural] = json!(items);
    shown[format!("{plural}_total")] = json!(progress.total);
    shown[format!("{plural}_completed")] = json!(progress.completed);
    shown[format!("{plural}_failed")] = json!(progress.failed);
    if let Some(at) = ended_at {
        shown["completed_at"] = json!(times::text(*at));
    }
    shown
}

/// Notes the ends of running workflows. One count for each workflow tells whether it still runs.
async fn settle(client: &Client, store: &Store) -> Result<(), Problem> {
    let mut after = Uuid::nil();
    loop {
        let running = store.running_workflows(after, PAGE).await?;
        let Some(last) = running.last() else { return Ok(()) };
        after = last.id;
        for workflow in running {
            let parts: Vec<Part> = serde_json::from_value(workflow.parts.clone()).unwrap_or_default();
            let unfinished = JobFilter::new().ids(parts.iter().map(|part| part.job)).states(unfinished());
            if client.count_jobs(unfinished, 1).await?.counted() == 0 {
                load(client, store, workflow).await?;
            }
        }
    }
}

fn unfinished() -> StateSet {
    let all = JobState::ALL.into_iter().filter(|state| !state.is_final());
    StateSet::of(&all.collect::<Vec<_>>())
}

/// Notes the ends of workflows that no client asks for, before retention deletes their jobs. It stops when the handle is dropped.
pub(crate) fn start_settling(client: Client, store: Store) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            tokio::time::sleep(SETTLE_EVERY).await;
            if let Err(error) = settle(&client, &store).await {
                tracing::warn!(?error, "the ends of workflows could not be noted, trying again");
            }
        }
    }))
}
