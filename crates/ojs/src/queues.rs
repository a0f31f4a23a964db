//! Queues: listed, counted, paused and resumed.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use uniqueue::JobState;
use uniqueue_admin::{Admin, QueueInfo};

use crate::answer::{Answer, Answered};
use crate::door::Door;
use crate::problem::Problem;
use crate::state::state_name;
use crate::times;

/// The time of the throughput.
const HOUR: Duration = Duration::from_secs(3_600);

/// `GET /queues`
pub(crate) async fn list(State(door): State<Arc<Door>>) -> Answered {
    let queues: Vec<_> = door
        .queues
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
    let queues = door.queues.queues().await?;
    let info = queues.iter().find(|info| info.settings.name.as_str() == name);
    let mut queue = shown(&name, info.is_some_and(|info| info.settings.paused_at.is_some()));
    let mut stats = counts(info);
    queue.extend(stats.clone());
    stats.extend(throughput(&door, &name).await?);
    let now = times::text(OffsetDateTime::now_utc());
    Ok(Answer::ok(json!({ "queue": queue, "stats": stats, "computed_at": now })))
}

/// The counts of a queue in the last hour. A process stores its counts up to a minute late.
async fn throughput(door: &Door, name: &str) -> Result<Map<String, Value>, Problem> {
    let history = Admin::new(&door.reads).history(HOUR).queue(name).await?;
    let all = history.total();
    let millis = |length: Option<Duration>| length.map(|length| length.as_secs_f64() * 1_000.0);
    let per_second = all.completed as f64 / HOUR.as_secs_f64();
    Ok(Map::from_iter([
        ("completed_last_hour".to_owned(), json!(all.completed)),
        ("failed_last_hour".to_owned(), json!(all.failed)),
        ("avg_duration_ms".to_owned(), json!(millis(all.run.mean()))),
        ("avg_wait_ms".to_owned(), json!(millis(all.wait.mean()))),
        ("throughput_per_second".to_owned(), json!(per_second)),
    ]))
}

/// `POST /queues/{name}/pause`
pub(crate) async fn pause(State(door): State<Arc<Door>>, Path(name): Path<String>) -> Answered {
    let settings = door.client.queue(&name).pause().await?;
    let mut queue = shown(&name, true);
    queue.insert("paused_at".to_owned(), json!(settings.paused_at.map(times::text)));
    Ok(Answer::ok(json!({ "queue": queue })))
}

/// `POST /queues/{name}/resume`
pub(crate) async fn resume(State(door): State<Arc<Door>>, Path(name): Path<String>) -> Answered {
    door.client.queue(&name).resume().await?;
    Ok(Answer::ok(json!({ "queue": shown(&name, false) })))
}
