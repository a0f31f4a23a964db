//! `MUTATE`: which jobs, and what becomes of them.

use test_support::prelude::*;

use crate::support::{Raw, Server, job, with};

async fn mutate(client: &mut Raw, mutation: serde_json::Value) {
    assert_eq!(client.send(&format!("MUTATE {mutation}")).await, "OK");
}

async fn states(server: &Server) -> String {
    let states = "SELECT string_agg(kind || ' ' || state, ', ' ORDER BY id) FROM {schema}.job";
    server.database.text(states).await
}

/// Three scheduled jobs: `a` with args, `b`, and `a` again.
async fn scheduled() -> (Server, Raw) {
    let server = Server::new().await;
    let mut client = server.worker("w").await;
    let later = |job| with(job, "at", "2100-01-01T00:00:00Z");
    client.push(later(with(job("job-0001", "a"), "args", json!(["fizz", {"uid": 12345}])))).await;
    client.push(later(job("job-0002", "b"))).await;
    client.push(later(job("job-0003", "a"))).await;
    (server, client)
}

#[tokio::test]
async fn a_filter_chooses_by_id_type_and_pattern() {
    let (server, mut client) = scheduled().await;
    mutate(&mut client, json!({"cmd": "kill", "target": "scheduled", "filter": {"regexp": "*\"uid\":12345*"}})).await;
    assert_eq!(states(&server).await, "a discarded, b scheduled, a scheduled");
    mutate(&mut client, json!({"cmd": "requeue", "target": "scheduled", "filter": {"jids": ["job-0002", "none"]}}))
        .await;
    assert_eq!(states(&server).await, "a discarded, b available, a scheduled");
    mutate(&mut client, json!({"cmd": "discard", "target": "scheduled", "filter": {"jobtype": "a"}})).await;
    assert_eq!(states(&server).await, "a discarded, b available, a cancelled");
    mutate(&mut client, json!({"cmd": "requeue", "target": "dead"})).await;
    assert_eq!(states(&server).await, "a available, b available, a cancelled");
    let mut fetched = [client.fetch("default").await, client.fetch("default").await];
    fetched.sort_by_key(|job| job["jid"].to_string());
    assert_eq!((&fetched[0]["jid"], &fetched[1]["jid"]), (&json!("job-0001"), &json!("job-0002")));
    assert_eq!(fetched[0]["args"], json!(["fizz", {"uid": 12345}]));
}

#[tokio::test]
async fn a_pattern_and_a_type_choose_together_and_clear_takes_all() {
    let (server, mut client) = scheduled().await;
    let filter = json!({"jobtype": "a", "regexp": "*\"args\":\\[\"fizz\"*", "jids": null});
    mutate(&mut client, json!({"cmd": "discard", "target": "scheduled", "filter": filter})).await;
    assert_eq!(states(&server).await, "a cancelled, b scheduled, a scheduled");
    mutate(&mut client, json!({"cmd": "clear", "target": "retries"})).await;
    assert_eq!(states(&server).await, "a cancelled, b scheduled, a scheduled");
    mutate(&mut client, json!({"cmd": "clear", "target": "scheduled", "filter": {"jids": ["ignored"]}})).await;
    assert_eq!(states(&server).await, "a cancelled, b cancelled, a cancelled");
    let log = "SELECT string_agg(DISTINCT actor || ' ' || verb, ', ') FROM {schema}.change_log";
    assert_eq!(server.database.text(log).await, "faktory cancel");
}

#[tokio::test]
async fn a_mutation_that_cannot_be_read_changes_nothing() {
    let (server, mut client) = scheduled().await;
    for bad in ["{}", r#"{"cmd":"drop","target":"dead"}"#, r#"{"cmd":"kill","target":"queues"}"#] {
        let answer = client.send(&format!("MUTATE {bad}")).await;
        assert!(answer.starts_with("-ERR Invalid MUTATE: "), "{answer}");
    }
    assert_eq!(states(&server).await, "a scheduled, b scheduled, a scheduled");
}
