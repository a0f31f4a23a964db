//! The forms and their changes.

mod jobs;
mod plans;
mod queues;

use axum::Router;
use axum::http::StatusCode;
use test_support::prelude::*;
use uniqueue_web::{Access, Web};

use crate::support::{Answer, get, request, send};

fn dashboard(database: &Database) -> Router {
    Web::new(database.client.clone()).access(|_| Access::all().user("ada")).router()
}

async fn post(router: &Router, path: &str, body: &str) -> Answer {
    send(router, request("POST", path, body)).await
}

async fn insert(client: &Client) -> JobId {
    client.insert(NewJob::new("mail", &json!({"to": 1}))).await.unwrap().id()
}

async fn job(client: &Client, id: JobId) -> JobRow {
    client.job(id).await.unwrap().unwrap()
}

/// Runs a plan, and waits until it has ended. Returns its page.
async fn run(router: &Router, plan: &str, confirm: &str) -> String {
    let answer = post(router, &format!("{plan}/run"), &format!("confirm={confirm}")).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.body);
    ended(router, plan).await
}

/// Waits until a plan has ended. Returns its page.
async fn ended(router: &Router, plan: &str) -> String {
    eventually!(let page = get(router, plan).await.body; !page.contains("Running."))
}
