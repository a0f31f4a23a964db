//! Queues: listed, counted, paused and resumed.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::{Map, Value, json};
use uniqueue::{JobState, QueueInfo};

use crate::answer::{Answer, Answered};
use crate::door::Door;
use crate::state::state_name;

/// `GET /queues`
pub(crate) async fn list(State(door): State<Arc<Door>>) -> Answered {
    let queues: Vec<_> = door
        .client
        .queues()
        .await?
        .iter()
        .map(|info| {
            let is_paused = info.settings.paused_at.is_some();
            let mut queue = shown(info.settings.name.as_str(), is_paused);
            queue.extend(counts(Some(info)));
            Value::Object(queue)
        })
        .collect();
    let pagination = json!({ "total": queues.len(), "has_more": false });
    Ok(Answer::ok(json!({ "queues": queues, "pagination": pagination })))
}

fn shown(name: &str, is_paused: bool) -> Map<String, Value> {
    let status = if is_paused { "paused" } else { "active" };
    let members = [("name", json!(name)), ("status", json!(status)), ("paused", json!(is_paused))];
    members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

/// The number of jobs in each state, counted up to 10,000. A queue without jobs, runners and settings has no counts.
fn counts(info: Option<&QueueInfo>) -> Map<String, Value> {
    let count = |state| info.map_or(0, |info| info.count(state).counted());
    JobState::ALL.into_iter().map(|state| (state_name(state).to_owned(), json!(count(state)))).collect()
}

/// `GET /queues/{name}/stats`
pub(crate) async fn stats(State(door): State<Arc<Door>>, Path(name): Path<String>) -> Answered {
    let queues = door.client.queues().await?;
    let info = queues.iter().find(|info| info.settings.name.as_str() == name);
    let mut queue = shown(&name, info.is_some_and(|info| info.settings.paused_at.is_some()));
    let counts = counts(info);
    queue.extend(counts.clone());
    Ok(Answer::ok(json!({ "queue": queue, "stats": counts })))
}

/// `POST /queues/{name}/pause`
pub(crate) async fn pause(State(door): State<Arc<Door>>, Path(name): Path<String>) -> Answered {
    let settings = door.client.queue(&name).pause().await?;
    let mut queue = shown(&name, true);
    queue.insert("paused_at".to_owned(), json!(settings.paused_at.map(crate::times::text)));
    Ok(Answer::ok(json!({ "queue": queue })))
}

/// `POST /queues/{name}/resume`
pub(crate) async fn resume(State(door): State<Arc<Door>>, Path(name): Path<String>) -> Answered {
    door.client.queue(&name).resume().await?;
    Ok(Answer::ok(json!({ "queue": shown(&name, false) })))
}
