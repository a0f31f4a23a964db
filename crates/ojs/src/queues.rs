//! Queues: listed, counted, paused and resumed.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use serde_json::{Value, json};
use time::OffsetDateTime;
use uniqueue::JobState;
use uniqueue_admin::{Admin, QueueInfo};

use crate::answer::{Answer, Answered};
use crate::door::Door;
use crate::state::state_name;
use crate::times;

/// The time of the throughput.
const HOUR: Duration = Duration::from_secs(3_600);

/// `GET /queues`
pub(crate) async fn list(State(door): State<Arc<Door>>) -> Answered {
    let queues = door.queues.queues().await?;
    let all = queues.iter().map(|info| {
        let mut queue = shown(info.settings.name.as_str(), info.settings.paused_at.is_some());
        count(&mut queue, Some(info));
        queue
    });
    let pagination = json!({ "total": queues.len(), "has_more": false });
    Ok(Answer::ok(json!({ "queues": all.collect::<Value>(), "pagination": pagination })))
}

fn shown(name: &str, is_paused: bool) -> Value {
    json!({ "name": name, "status": if is_paused { "paused" } else { "active" }, "paused": is_paused })
}

/// Adds the number of jobs in each state, counted up to 10,000. A queue without jobs, runners and settings has no counts.
fn count(shown: &mut Value, info: Option<&QueueInfo>) {
    for state in JobState::ALL {
        shown[state_name(state)] = json!(info.map_or(0, |info| info.count(state).counted()));
    }
}

/// `GET /queues/{name}/stats`. A process stores its counts of the last hour up to a minute late.
pub(crate) async fn stats(State(door): State<Arc<Door>>, Path(name): Path<String>) -> Answered {
    let queues = door.queues.queues().await?;
    let info = queues.iter().find(|info| info.settings.name.as_str() == name);
    let mut queue = shown(&name, info.is_some_and(|info| info.settings.paused_at.is_some()));
    count(&mut queue, info);
    let all = Admin::new(&door.reads).history(HOUR).queue(&name).await?.total();
    let millis = |length: Option<Duration>| length.map(|length| length.as_secs_f64() * 1_000.0);
    let mut stats = json!({
        "completed_last_hour": all.completed, "failed_last_hour": all.failed,
        "avg_duration_ms": millis(all.run.mean()), "avg_wait_ms": millis(all.wait.mean()),
        "throughput_per_second": all.completed as f64 / HOUR.as_secs_f64(),
    });
    count(&mut stats, info);
    let now = times::text(OffsetDateTime::now_utc());
    Ok(Answer::ok(json!({ "queue": queue, "stats": stats, "computed_at": now })))
}

/// `POST /queues/{name}/pause`
pub(crate) async fn pause(State(door): State<Arc<Door>>, Path(name): Path<String>) -> Answered {
    let settings = door.client.queue(&name).pause().await?;
    let mut queue = shown(&name, true);
    queue["paused_at"] = json!(settings.paused_at.map(times::text));
    Ok(Answer::ok(json!({ "queue": queue })))
}

/// `POST /queues/{name}/resume`
pub(crate) async fn resume(State(door): State<Arc<Door>>, Path(name): Path<String>) -> Answered {
    door.client.queue(&name).resume().await?;
    Ok(Answer::ok(json!({ "queue": shown(&name, false) })))
}
