//! Requests without a socket, and what the tests look for in a page.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use sqlx::{Postgres, Transaction};
use test_support::prelude::*;
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

/// The pages of a list, from this one to the last.
pub(crate) async fn pages(router: &Router, path: &str) -> Vec<String> {
    let (mut path, mut pages) = (path.to_owned(), Vec::new());
    loop {
        let page = get(router, &path).await.body;
        let next = after(&page, "rel=\"next\" href=\"").pop();
        pages.push(page);
        match next {
            Some(next) => path = next.replace("&amp;", "&"),
            None => return pages,
        }
    }
}

/// The part of a page from the end of this text to the next quote.
pub(crate) fn after(page: &str, text: &str) -> Vec<String> {
    page.split(text).skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

/// A text in which each byte is spelled out, as part of a path or a form.
pub(crate) fn coded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// A transaction in which no other reads jobs. It locks one table: a lock on a second one would wait for a
/// query of the dashboard that waits for the first.
pub(crate) async fn lock_jobs(database: &Database) -> Transaction<'static, Postgres> {
    database.begin("LOCK TABLE {schema}.job").await
}

/// Makes the jobs that are older than a time slow to read: each takes this many seconds.
pub(crate) async fn slow_down(database: &Database, older_than: &str, seconds: f64) {
    let is_slow =
        format!("id < {{schema}}.id_at(now() - interval '{older_than}') THEN pg_sleep({seconds}) IS NOT NULL");
    let slow = format!(
        "ALTER TABLE {{schema}}.job RENAME TO job_rows;
         CREATE VIEW {{schema}}.job AS SELECT * FROM {{schema}}.job_rows WHERE CASE WHEN {is_slow} ELSE true END"
    );
    database.execute(&slow).await;
}
