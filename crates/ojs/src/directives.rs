//! Directives: what a worker is told with its next heartbeat.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::json;

use crate::answer::{Answer, Answered};
use crate::body::Object;
use crate::door::Door;
use crate::fields::wrong;

/// `PUT /workers/{id}/directive`: tells a worker to go on (`running`), to fetch no more (`quiet`) or to stop (`terminate`).
pub(crate) async fn set(State(door): State<Arc<Door>>, Path(worker): Path<String>, Object(body): Object) -> Answered {
    let given = body.get("state").cloned().unwrap_or_default();
    let state = match given.as_str() {
        Some("running") => None,
        Some(state @ ("quiet" | "terminate")) => Some(state),
        _ => return Err(wrong("state", "running, quiet or terminate", &given)),
    };
    if worker.is_empty() || worker.len() > 128 {
        return Err(wrong("worker", "a name of 1 to 128 bytes", &json!(worker)));
    }
    door.store.set_directive(&worker, state).await?;
    Ok(Answer::ok(json!({ "worker_id": worker, "state": given })))
}
