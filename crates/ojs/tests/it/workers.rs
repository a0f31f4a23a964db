//! Workers beyond what the suites ask.

use test_support::prelude::*;

use crate::fixture::{Door, post_to, text};

/// Waits until a job is in a state, and returns it.
async fn until(door: &Door, id: &str, state: &str) -> Value {
    eventually!(let job = door.job(id).await; job["state"] == state, "not {state}: {job}")
}

#[test_support::test]
async fn a_job_that_its_worker_does_not_extend_is_available_again(door: Door) {
    let id = door.enqueue(&json!({ "type": "a", "args": [], "options": { "visibility_timeout_ms": 1_000 } })).await;
    let fetched = door.fetch("default", "lost", 1).await;
    assert_eq!(fetched[0]["id"], json!(id));
    let job = until(&door, &id, "available").await;
    assert_eq!(job["errors"][0]["code"], "lost");
    // The first loss uses up no attempt.
    assert_eq!(job["attempt"], 0);
    // The report of the lost worker counts no more.
    let (status, answer) = door.post("/workers/ack", &json!({ "job_id": id, "worker_id": "lost" })).await;
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("conflict")));
}

#[test_support::test]
async fn an_attempt_ends_at_the_timeout_of_its_job_also_while_its_worker_extends_it(door: Door) {
    let options = json!({ "timeout_ms": 1_000, "retry": { "initial_interval": "PT1H" } });
    let id = door.enqueue(&json!({ "type": "a", "args": [], "options": options })).await;
    door.fetch("default", "slow", 1).await;
    let beat = json!({ "worker_id": "slow", "active_jobs": [id] });
    assert_eq!(door.post("/workers/heartbeat", &beat).await.1["jobs_extended"], json!([id]));
    let job = until(&door, &id, "retryable").await;
    assert_eq!((&job["error"]["code"], &job["attempt"]), (&json!("timeout"), &json!(1)));
    assert_eq!(door.post("/workers/heartbeat", &beat).await.1["jobs_extended"], json!([]));
}

#[test_support::test]
async fn a_deadline_takes_no_crash_back_and_holds_for_a_job_that_another_process_extends(door: Door) {
    let other = uniqueue_ojs::Ojs::new(door.database.client.clone()).start().await.unwrap();
    let options = json!({ "timeout_ms": 4_000, "retry": { "initial_interval": "PT1H" } });
    door.enqueue(&json!({ "type": "deadly", "args": [], "options": options })).await;
    let extended = door.enqueue(&json!({ "type": "extended", "args": [], "options": options })).await;
    let fetch = json!({ "queues": ["default"], "worker_id": "w", "count": 2, "visibility_timeout_ms": 2_000 });
    assert_eq!(door.post("/workers/fetch", &fetch).await.1["jobs"].as_array().unwrap().len(), 2);
    let beat = json!({ "worker_id": "w", "active_jobs": [extended], "visibility_timeout_ms": 60_000 });
    let (_, beat) = post_to(other, "/workers/heartbeat", &beat).await;
    assert_eq!(beat["jobs_extended"], json!([extended]));
    let crashes = "SELECT crashes::bigint FROM {schema}.job WHERE kind = 'deadly'";
    door.database.until(crashes, 1).await;
    let job = until(&door, &extended, "retryable").await;
    assert_eq!(job["error"]["code"], "timeout");
    // The deadlines of both were the same.
    assert_eq!(door.database.number(crashes).await, 1);
}

#[test_support::test]
async fn a_report_on_a_locked_job_is_refused_soon_and_may_be_sent_again(door: Door) {
    let id = door.enqueue(&json!({ "type": "a", "args": [] })).await;
    door.fetch("default", "w", 1).await;
    let mut locking = door.database.pool().begin().await.unwrap();
    sqlx::query(door.database.sql("SELECT FROM {schema}.job FOR UPDATE")).execute(&mut *locking).await.unwrap();
    let report = json!({ "job_id": id, "worker_id": "w" });
    let (status, answer) = tokio::time::timeout(test_support::WAIT, door.post("/workers/ack", &report)).await.unwrap();
    let error = &answer["error"];
    assert_eq!((status, &error["code"], &error["retryable"]), (503, &json!("backend_error"), &json!(true)));
    assert!(text(&error["message"]).contains("locked"), "{answer}");
    locking.rollback().await.unwrap();
    assert_eq!(door.post("/workers/ack", &report).await.0, 200);
}

#[test_support::test]
async fn a_number_is_no_text_of_a_worker(door: Door) {
    let id = door.enqueue(&json!({ "type": "a", "args": [] })).await;
    door.fetch("default", "w", 1).await;
    let nack = |error: Value| json!({ "job_id": id, "error": error });
    for (path, body, field) in [
        ("fetch", json!({ "queues": ["default"], "worker_id": 1.5 }), "worker_id"),
        ("fetch", json!({ "queues": ["default", 1.5] }), "queues"),
        ("heartbeat", json!({ "worker_id": "w", "active_jobs": [1.5] }), "active_jobs"),
        ("nack", nack(json!({ "message": 1.5 })), "error.message"),
        ("nack", nack(json!({ "code": 15 })), "error.code"),
        ("nack", nack(json!({ "type": 1.5 })), "error.type"),
        ("nack", nack(json!({ "details": { "error_class": 1.5 } })), "error.details.error_class"),
    ] {
        let (status, answer) = door.post(&format!("/workers/{path}"), &body).await;
        assert_eq!((status, &answer["error"]["details"]["field"]), (400, &json!(field)), "{body}: {answer}");
    }
    let retry = json!({ "retry": { "non_retryable_errors": [1.5] } });
    assert_eq!(door.post("/jobs", &json!({ "type": "a", "args": [], "options": retry })).await.0, 422);
    assert_eq!(door.job(&id).await["state"], "active");
}

#[test_support::test]
async fn a_report_counts_only_for_the_worker_that_fetched(door: Door) {
    let id = door.enqueue(&json!({ "type": "a", "args": [] })).await;
    door.fetch("default", "one", 1).await;
    let report = |worker: &str| json!({ "job_id": id, "worker_id": worker });
    assert_eq!(door.post("/workers/ack", &report("other")).await.0, 409);
    assert_eq!(door.post("/workers/ack", &report("one")).await.0, 200);
    assert_eq!(door.post("/workers/ack", &report("one")).await.0, 409);
    assert_eq!(door.post("/workers/ack", &json!({ "job_id": "no-id" })).await.0, 404);
}

#[test_support::test]
async fn another_process_of_the_door_takes_reports_and_heartbeats(door: Door) {
    let other = uniqueue_ojs::Ojs::new(door.database.client.clone()).start().await.unwrap();
    let id = door
        .enqueue(&json!({ "type": "a", "args": [], "options": { "metadata": { "test_directive": "quiet" } } }))
        .await;
    door.fetch("default", "w", 1).await;
    let other = Door { router: other, ..door };
    let (_, beat) = other.post("/workers/heartbeat", &json!({ "worker_id": "w", "active_jobs": [id, "odd"] })).await;
    assert_eq!((&beat["jobs_extended"], &beat["state"]), (&json!([id]), &json!("quiet")));
    assert_eq!(other.post("/workers/ack", &json!({ "job_id": id, "worker_id": "another" })).await.0, 409);
    let (_, beat) = other.post("/workers/heartbeat", &json!({ "worker_id": "another", "active_jobs": [id] })).await;
    assert_eq!(beat["jobs_extended"], json!([]));
    let (status, answer) = other.post("/workers/ack", &json!({ "job_id": id, "worker_id": "w", "result": 7 })).await;
    assert_eq!((status, &answer["state"]), (200, &json!("completed")));
    assert_eq!(other.job(&id).await["result"], 7);
}

#[test_support::test]
async fn a_worker_gets_its_directive_until_it_is_taken_back(door: Door) {
    let set = async |state: &str| door.call("PUT", "/workers/w/directive", &json!({ "state": state })).await.0;
    let told = async || door.post("/workers/heartbeat", &json!({ "worker_id": "w" })).await.1["state"].clone();
    assert_eq!(told().await, "running");
    assert_eq!((set("quiet").await, told().await), (200, json!("quiet")));
    assert_eq!((set("terminate").await, told().await), (200, json!("terminate")));
    assert_eq!((set("running").await, told().await), (200, json!("running")));
    assert_eq!(set("odd").await, 400);
}

#[test_support::test]
async fn an_error_that_the_policy_names_discards_the_job_and_a_dead_letter_comes_back(door: Door) {
    let options = json!({ "retry": { "non_retryable_errors": ["Fatal"] } });
    let id = door.enqueue(&json!({ "type": "a", "args": [], "options": options })).await;
    door.fetch("default", "w", 1).await;
    let error = json!({ "code": "handler_error", "message": "no", "details": { "error_class": "Fatal" } });
    let (_, answer) = door.post("/workers/nack", &json!({ "job_id": id, "error": error })).await;
    assert_eq!(answer["state"], "discarded");
    let (_, list) = door.get("/dead-letter?queue=default&limit=1").await;
    assert_eq!((&list["jobs"][0]["id"], &list["pagination"]["has_more"]), (&json!(id), &json!(false)));
    assert_eq!(door.post(&format!("/dead-letter/{id}/retry"), &json!({})).await.1["job"]["state"], "available");
    assert_eq!(door.get(&format!("/dead-letter/{id}")).await.0, 404);
}

#[test_support::test]
async fn dead_letters_come_page_by_page(door: Door) {
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(door.enqueue(&json!({ "type": "a", "args": [n] })).await);
    }
    door.database.execute("UPDATE {schema}.job SET state = 'discarded', finalized_at = now()").await;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let (_, page) = door.get(&format!("/dead-letter?limit=2&cursor={cursor}")).await;
        seen.extend(page["jobs"].as_array().unwrap().iter().map(|job| text(&job["id"])));
        if page["pagination"]["has_more"] != true {
            break;
        }
        cursor = text(&page["pagination"]["next_cursor"]);
    }
    ids.reverse();
    assert_eq!(seen, ids);
    let (_, page) = door.get("/dead-letter?limit=2&offset=1").await;
    assert_eq!(page["jobs"][0]["id"], json!(ids[1]));
}
