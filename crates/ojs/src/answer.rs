//! The outermost layer: the headers of every answer, the body of a problem, and requests that a hang-up does not interrupt.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use uuid::Uuid;

use crate::door::Access;
use crate::door::Door;
use crate::exact::Exact;
use crate::problem::{Problem, VERSION};

/// The media type of OJS.
const MEDIA_TYPE: &str = "application/openjobspec+json";

/// An answer with a body.
pub(crate) struct Answer {
    status: StatusCode,
    body: Value,
    location: Option<String>,
}

/// The result of a handler.
pub(crate) type Answered = Result<Answer, Problem>;

impl Answer {
    pub(crate) const fn ok(body: Value) -> Self {
        Self { status: StatusCode::OK, body, location: None }
    }

    pub(crate) const fn created(body: Value) -> Self {
        Self { status: StatusCode::CREATED, body, location: None }
    }

    pub(crate) const fn unavailable(body: Value) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, body, location: None }
    }

    /// Where the new resource is.
    pub(crate) fn at(self, location: String) -> Self {
        Self { location: Some(location), ..self }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let Self { status, body, location } = self;
        let mut response = match serde_json::to_string(&Exact(&body)) {
            Ok(body) => (status, body).into_response(),
            Err(error) => {
                tracing::error!(%error, "an answer of Open Job Spec cannot be written");
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            }
        };
        response.headers_mut().insert(VERSION, HeaderValue::from_static("1.0"));
        if let Some(location) = location.and_then(|location| HeaderValue::try_from(location).ok()) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}

/// Answers a request, and completes the answer.
pub(crate) async fn complete(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let accepts = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = if accepts.trim() == "application/json" { "application/json" } else { MEDIA_TYPE };
    let may_change = ![Method::GET, Method::HEAD].contains(request.method());
    let mut response = match refusal(&door, &request) {
        Some(problem) => problem.into_response(),
        // Where the client hangs up, the request goes on: half of a change is none, and a transaction that is dropped while
        // it begins would stay open in the pool.
        None => match tokio::spawn(next.run(request)).await {
            Ok(response) => response,
            Err(error) => {
                tracing::error!(%error, "a request of Open Job Spec panicked");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        },
    };
    if may_change {
        door.queues.changed();
    }
    let problem = response.extensions_mut().remove::<Problem>().or_else(|| Problem::of_refusal(&response));
    finish(response, problem, media_type)
}

/// Completes an answer: the headers, and the body of a problem.
fn finish(mut response: Response, problem: Option<Problem>, media_type: &'static str) -> Response {
    let request_id = format!("req_{}", Uuid::now_v7());
    if let Some(problem) = problem {
        response.headers_mut().remove(header::CONTENT_LENGTH);
        *response.body_mut() = Body::from(problem.body(&request_id).to_string());
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(VERSION, HeaderValue::from_static("1.0"));
    if let Ok(request_id) = HeaderValue::try_from(request_id) {
        headers.insert("x-request-id", request_id);
    }
    response
}

/// Gives a refusal of the server around the router the body and the headers of OJS. An answer of the router, or of a status
/// below 400, stays as it is.
///
/// A server that checks credentials or limits requests itself answers clients that the router never sees:
///
/// ```
/// use axum::http::StatusCode;
/// use axum::response::IntoResponse;
///
/// let refusal = uniqueue_ojs::in_ojs_words((StatusCode::UNAUTHORIZED, "no token").into_response());
/// assert_eq!(refusal.headers()["content-type"], "application/openjobspec+json");
/// ```
pub fn in_ojs_words(response: Response) -> Response {
    match Problem::of_refusal(&response) {
        Some(problem) => finish(response, Some(problem), MEDIA_TYPE),
        None => response,
    }
}

/// Why a request gets no further.
fn refusal(door: &Door, request: &Request) -> Option<Problem> {
    let is_reading = [Method::GET, Method::HEAD].contains(request.method());
    let asked = request.headers().get("ojs-version").and_then(|value| value.to_str().ok());
    if let Some(version) = asked.filter(|version| version.split('.').next() != Some("1")) {
        return Some(Problem::unsupported(format!("unsupported OJS-Version: {version:?}; this server speaks 1.0")));
    }
    let (parts, is_probe) = (request.method(), request.uri().path().ends_with("/ojs/v1/health"));
    match (door.access)(request) {
        _ if is_probe => None,
        Access::All => None,
        Access::Read if is_reading => None,
        Access::Read => Some(Problem::forbidden(format!("these credentials may only read: {parts}"))),
        Access::None => Some(Problem::forbidden("these credentials allow nothing here")),
    }
}
