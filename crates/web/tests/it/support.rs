//! Requests without a socket.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use tower::ServiceExt;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) head: Response<()>,
    pub(crate) body: String,
}

impl Answer {
    /// A header, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.head.headers().get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

/// A request of this host's own pages.
pub(crate) fn request(method: &str, path: &str, body: &str) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "localhost")
        .header("sec-fetch-site", "same-origin")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Body::from(body.to_owned()))
        .unwrap()
}

/// Sends a request.
pub(crate) async fn send(router: &Router, request: Request<Body>) -> Answer {
    let (parts, body) = router.clone().oneshot(request).await.unwrap().into_parts();
    Answer { status: parts.status, body: text(body).await, head: Response::from_parts(parts, ()) }
}

async fn text(body: Body) -> String {
    String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Reads a page.
pub(crate) async fn get(router: &Router, path: &str) -> Answer {
    send(router, request("GET", path, "")).await
}
