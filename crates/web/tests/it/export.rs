//! The jobs of a filter as a file.

use axum::http::StatusCode;
use test_support::prelude::*;
use uniqueue_web::Web;

use crate::support::get;

#[test_support::test]
async fn all_jobs_of_a_filter_are_exported_in_its_order(database: Database, client: &Client) {
    let jobs = (0..1_203).map(|n| NewJob::new("mail", &json!({"n": n, "text": "=1+1, \"x\"\n"})));
    let ids: Vec<_> = client.insert_many(jobs).await.unwrap().iter().map(|job| job.id().to_string()).collect();
    client.insert(NewJob::new("other", &json!({}))).await.unwrap();
    client.cancel(client.jobs(uniqueue::JobFilter::new().kind("other")).await.unwrap()[0].id).await.unwrap();
    let router = uniqueue_web::router(client.clone());
    let file = get(&router, "/jobs/export?format=jsonl&kind=mail&order=oldest").await;
    assert_eq!(file.status, StatusCode::OK);
    assert_eq!(file.header("content-disposition"), "attachment; filename=\"jobs.jsonl\"");
    let rows: Vec<Value> = file.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    assert_eq!(rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>(), sorted);
    assert_eq!(rows[0]["state"], "available");
    let file = get(&router, "/jobs/export?format=csv&kind=mail").await.body;
    assert!(file.starts_with("id,kind,queue,state,"), "{file}");
    assert_eq!(file.matches("\r\n").count(), 1_204);
    assert!(file.contains(r#""{""n"": 1202, ""text"": ""=1+1, \""x\""\n""}""#), "{}", &file[..600]);
    let file = get(&router, &format!("/jobs/export?format=csv&state={}", JobState::Cancelled)).await.body;
    assert_eq!(file.lines().count(), 2, "{file}");
    assert_eq!(get(&router, "/jobs/export?format=xls").await.status, StatusCode::BAD_REQUEST);
}

#[test_support::test]
async fn an_export_hides_what_pages_hide(database: Database) {
    database.client.insert(NewJob::new("mail", &json!({})).meta("secret", "hunter2")).await.unwrap();
    let router = Web::new(database.client.clone()).redact(|job| job.meta.clear()).router();
    let file = get(&router, "/jobs/export").await.body;
    assert!(file.contains("mail") && !file.contains("hunter2"), "{file}");
}
