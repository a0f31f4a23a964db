//! The answer to a request that cannot be done, in the words of OJS.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use uniqueue::{Error, JobId};
use uniqueue_http::Refusal;

/// The header of the version, which every answer of the router has.
pub(crate) const VERSION: &str = "ojs-version";

/// Why a request was refused. The outermost layer writes it as the body of the answer.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    code: &'static str,
    message: String,
    is_retryable: bool,
    hint: Option<String>,
    details: Map<String, Value>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), is_retryable: false, hint: None, details: Map::new() }
    }

    /// A member that is missing, or that has a value which it cannot have.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// A member that the document needs is not in it.
    pub(crate) fn missing(field: &str) -> Self {
        Self::invalid(format!("missing required field: {field}")).detail("field", field)
    }

    /// A policy that is well-formed and cannot be followed.
    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message)
    }

    /// A body that is no JSON object.
    pub(crate) fn payload(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_payload", message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "unsupported", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("{what} not found: {id:?}"))
            .hint("check the id; final jobs are deleted after the retention of their queue")
            .detail("resource_type", what)
            .detail("resource_id", id)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request", "this endpoint does not know the method")
    }

    /// The resource is in a state that does not allow it.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    pub(crate) fn duplicate(message: impl Into<String>, existing: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "duplicate", message).detail("existing_job_id", existing)
    }

    /// A duplicate that names no other job is one of this job: another job has its id.
    pub(crate) fn existing(mut self, id: JobId) -> Self {
        if self.code == "duplicate" {
            self.details.entry("existing_job_id").or_insert_with(|| json!(id));
        }
        self
    }

    fn retryable(mut self) -> Self {
        self.is_retryable = true;
        self
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// The problem of one document of a list.
    pub(crate) fn at_index(mut self, index: usize) -> Self {
        self.message = format!("job at index {index}: {}", self.message);
        self.detail("index", index)
    }

    /// The problem that a plain answer with this status stands for: one of a layer or a server around the router. `why`: its
    /// text, where it is known.
    fn of_status(status: StatusCode, why: Option<&str>) -> Self {
        let (code, message) = match status {
            StatusCode::UNAUTHORIZED => {
                ("unauthenticated", "credentials are needed, or those that were sent are wrong")
            }
            StatusCode::FORBIDDEN => ("forbidden", "these credentials do not allow the request"),
            StatusCode::TOO_MANY_REQUESTS => ("rate_limited", "too many wrong credentials came from this address"),
            StatusCode::PAYLOAD_TOO_LARGE => ("invalid_payload", "the body is too large, or was not sent whole"),
            StatusCode::REQUEST_TIMEOUT => ("invalid_request", "the request was sent too slowly"),
            StatusCode::SERVICE_UNAVAILABLE => ("backend_error", "too many requests are worked on"),
            status if status.is_server_error() => ("backend_error", "the server failed; its log has the error"),
            _ => ("invalid_request", "the request cannot be read"),
        };
        let problem = Self::new(status, code, why.unwrap_or(message));
        match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::REQUEST_TIMEOUT => {
                problem.retryable()
            }
            _ => problem,
        }
    }

    /// The body of the answer.
    pub(crate) fn body(&self, request_id: &str) -> Value {
        let Self { status, code, message, is_retryable, hint, details } = self;
        let of_type = match *status {
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::PAYLOAD_TOO_LARGE => {
                "validation_error"
            }
            _ => code,
        };
        let mut error = json!({
            "code": code, "type": of_type, "message": message, "retryable": is_retryable,
            "docs_url": format!("https://openjobspec.org/spec/errors#{code}"), "request_id": request_id,
        });
        if let Some(hint) = hint {
            error["hint"] = json!(hint);
        }
        if !details.is_empty() {
            error["details"] = Value::Object(details.clone());
        }
        json!({ "error": error })
    }
}

/// How long a client waits before it tries again, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

impl Problem {
    /// The problem of an answer that neither a handler nor another problem wrote: a refusal of axum, of the checks or of a
    /// server around the router. `None`: it is no refusal, or has the words of OJS.
    pub(crate) fn of_refusal(response: &Response) -> Option<Self> {
        let status = response.status();
        let is_refusal = status.is_client_error() || status.is_server_error();
        let why = response.extensions().get::<Refusal>().map(|Refusal(why)| *why);
        (is_refusal && !response.headers().contains_key(VERSION)).then(|| Self::of_status(status, why))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&self.status) {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match &error {
            Error::Rejected(rejections) => {
                let first = rejections.first();
                let existing = first.and_then(|first| first.holder).map(|id| id.to_string()).unwrap_or_default();
                let mut problem = Self::duplicate("a job with the same unique key exists already", &existing);
                if let Some(first) = first {
                    let state = first.holder_state.map(crate::state::state_name);
                    let key = first.duplicate.as_ref().map(|duplicate| duplicate.unique_key.as_str());
                    problem = problem.detail("existing_job_state", state).detail("uniqueness_key", key);
                    problem = problem.detail("index", first.index);
                }
                problem
            }
            Error::QueueFull { .. } => Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", text).retryable(),
            Error::Busy { .. } => Self::new(StatusCode::SERVICE_UNAVAILABLE, "backend_error", text).retryable(),
            Error::MissingParent { parent } => Self::not_found("job", &parent.to_string()),
            Error::Database(by) | Error::Connect { source: by, .. } => {
                let code = by.as_database_error().and_then(|by| by.code().map(|code| code.into_owned()));
                match code.as_deref() {
                    // A text with the one character that PostgreSQL does not store, or an argument outside its limits.
                    Some("22021" | "22P05" | "22023") => Self::invalid(text),
                    Some("23505") => Self::new(StatusCode::CONFLICT, "duplicate", text),
                    _ => {
                        // The text may quote what a client sent. As a quoted string it stays one line.
                        tracing::warn!(error = ?text, "a request of Open Job Spec failed");
                        let is_passing = error.is_retryable() || error.is_statement_timeout() || code.is_none();
                        match is_passing {
                            true => Self::away(),
                            false => Self::new(
                                StatusCode::INTERNAL_SERVER_ERROR,
                                "backend_error",
                                "the database refused the statement; the server's log has its error",
                            ),
                        }
                    }
                }
            }
            _ => Self::invalid(text),
        }
    }
}

impl Problem {
    /// Another transaction has locked the job of a report.
    pub(crate) fn locked(job: JobId) -> Self {
        let message = format!("another transaction has locked job {job}: send the report again");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "backend_error", message).retryable()
    }

    /// The database does not answer, or not in time.
    pub(crate) fn away() -> Self {
        let message = "the database does not answer, or not in time";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "backend_error", message).retryable()
    }
}

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        Self::from(Error::from(error))
    }
}
