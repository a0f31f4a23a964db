//! A door with a queue of its own, and requests without a socket.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use http_body_util::BodyExt;
use test_support::prelude::*;
use tower::ServiceExt;
use uniqueue::{Maintainer, MaintainerHandle};
use uniqueue_ojs::Ojs;

/// A door, its queue, and the maintenance of the queue.
#[allow(dead_code, reason = "the maintainer stops when it is dropped")]
pub(crate) struct Door {
    pub(crate) database: Database,
    pub(crate) router: Router,
    pub(crate) maintainer: MaintainerHandle,
}

/// An answer. The body is null where it is no JSON.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) is_empty: bool,
    pub(crate) body: Option<Value>,
    pub(crate) text: String,
}

impl Door {
    pub(crate) async fn new() -> Self {
        Self::with_connections(4).await
    }

    pub(crate) async fn with_connections(connections: u32) -> Self {
        let database = Database::with_connections(connections).await;
        let maintainer = Maintainer::new(database.client.clone())
            .promote_interval(Duration::from_millis(100))
            .rescue_interval(Duration::from_millis(500));
        let maintainer = maintainer.start().await.unwrap();
        let router = Ojs::new(database.client.clone()).start().await.unwrap();
        Self { database, router, maintainer }
    }

    /// Sends a request with these bytes as its body.
    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(String, String)], body: Vec<u8>) -> Answer {
        send_to(self.router.clone(), method, path, headers, body).await
    }

    /// Sends a request to `/ojs/v1`, and returns the status and the body.
    pub(crate) async fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let answer = self.send(method, &format!("/ojs/v1{path}"), &[], bytes).await;
        (answer.status, answer.body.unwrap_or_default())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.call("GET", path, &Value::Null).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.call("POST", path, body).await
    }

    /// Enqueues a job, which must be new, and returns its id.
    pub(crate) async fn enqueue(&self, body: &Value) -> String {
        let (status, answer) = self.post("/jobs", body).await;
        assert_eq!(status, 201, "{answer}");
        text(&answer["job"]["id"])
    }

    /// Fetches up to `count` jobs of a queue.
    pub(crate) async fn fetch(&self, queue: &str, worker: &str, count: u32) -> Vec<Value> {
        let body = json!({ "queues": [queue], "worker_id": worker, "count": count });
        let (status, answer) = self.post("/workers/fetch", &body).await;
        assert_eq!(status, 200, "{answer}");
        answer["jobs"].as_array().unwrap().clone()
    }

    /// The job as it is now.
    pub(crate) async fn job(&self, id: &str) -> Value {
        let (status, answer) = self.get(&format!("/jobs/{id}")).await;
        assert_eq!(status, 200, "{answer}");
        answer["job"].clone()
    }
}

async fn send_to(router: Router, method: &str, path: &str, headers: &[(String, String)], body: Vec<u8>) -> Answer {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let answer = router.oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes).ok();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    Answer { status: parts.status.as_u16(), headers: parts.headers, is_empty: bytes.is_empty(), body, text }
}

/// Posts a body to `/ojs/v1` of any router, and returns the status and the body.
pub(crate) async fn post_to(router: Router, path: &str, body: &Value) -> (u16, Value) {
    let answer = send_to(router, "POST", &format!("/ojs/v1{path}"), &[], body.to_string().into_bytes()).await;
    (answer.status, answer.body.unwrap_or_default())
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
