//! `/health/live` and `/health/ready`, for probes.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::app::App;

/// The process answers.
pub(crate) async fn live() -> &'static str {
    "live\n"
}

/// The database, or that of one place at least, answered the latest sample. A probe sends no query: it reads what the sampler knows.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    // Over several places each page says which of them do not answer.
    match app.latest().await.iter().any(|(_, seen)| seen.problem().is_none()) {
        true => "ready\n".into_response(),
        // The reason may name hosts and users. Probes need no credentials.
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready: the database does not answer\n").into_response(),
    }
}
