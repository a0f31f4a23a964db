//! The table of routes.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post, put};

use crate::door::Door;
use crate::problem::Problem;
use crate::{answer, cron, dead_letter, events, jobs, queues, system, workers, workflow};

/// The router of the door.
pub(crate) fn router(door: &Arc<Door>) -> Router {
    let v1 = Router::new()
        .route("/health", get(system::health))
        .route("/jobs", post(jobs::enqueue))
        .route("/jobs/batch", post(jobs::enqueue_batch))
        .route("/jobs/{id}", get(jobs::show).delete(jobs::cancel))
        .route("/jobs/{id}/activate", post(jobs::activate))
        .route("/workers/fetch", post(workers::fetch))
        .route("/workers/ack", post(workers::ack))
        .route("/workers/nack", post(workers::nack))
        .route("/workers/heartbeat", post(workers::heartbeat))
        .route("/workers/{id}/directive", put(workers::direct))
        .route("/dead-letter", get(dead_letter::list))
        .route("/dead-letter/{id}", get(dead_letter::show).delete(dead_letter::delete))
        .route("/dead-letter/{id}/retry", post(dead_letter::retry))
        .route("/cron", get(cron::list).post(cron::register))
        .route("/cron/{name}", delete(cron::remove))
        .route("/workflows", post(workflow::create))
        .route("/workflows/{id}", get(workflow::show).delete(workflow::cancel))
        .route("/queues", get(queues::list))
        .route("/queues/{name}/stats", get(queues::stats))
        .route("/queues/{name}/pause", post(queues::pause))
        .route("/queues/{name}/resume", post(queues::resume))
        .route("/events", get(events::list));
    Router::new()
        .nest("/ojs/v1", v1)
        .route("/ojs/manifest", get(system::manifest))
        .fallback(|| async { Problem::not_found("endpoint", "see /ojs/manifest") })
        .method_not_allowed_fallback(|| async { Problem::method_not_allowed() })
        .layer(from_fn_with_state(Arc::clone(door), answer::complete))
        .with_state(Arc::clone(door))
}
