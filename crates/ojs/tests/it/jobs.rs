//! Jobs beyond what the suites ask.

use axum::http::Request;
use test_support::prelude::*;
use tower::ServiceExt;
use uniqueue_ojs::{Access, Ojs};

use crate::fixture::Door;

#[test_support::test]
async fn args_are_an_array_and_beside_a_unique_policy_also_an_object(door: Door) {
    let object = json!({ "type": "a", "args": { "n": 1 } });
    assert_eq!(door.post("/jobs", &object).await.0, 400);
    let mut unique = object;
    unique["unique"] = json!({});
    let id = door.enqueue(&unique).await;
    assert_eq!(door.job(&id).await["args"], json!({ "n": 1 }));
}

#[test_support::test]
async fn a_job_of_another_door_is_shown_and_worked(door: Door) {
    let job = NewJob::new("native", &json!({ "n": 1 })).meta("trace", "x");
    let inserted = door.database.client.insert(job).await.unwrap();
    let fetched = door.fetch("default", "w", 1).await.remove(0);
    assert_eq!(
        (&fetched["id"], &fetched["args"], &fetched["meta"]),
        (&json!(inserted.id()), &json!({ "n": 1 }), &json!({ "trace": "x" }))
    );
    let report = json!({ "job_id": fetched["id"], "error": { "code": "x", "message": "y" } });
    // Without a policy of OJS the wait is the queue's own.
    assert_eq!(door.post("/workers/nack", &report).await.1["state"], "retryable");
}

#[test_support::test]
async fn a_kind_that_is_registered_gives_a_job_what_its_request_leaves_out(door: Door) {
    let id = door.enqueue(&json!({ "type": "open", "args": [] })).await;
    assert_eq!(door.job(&id).await["max_attempts"], 3);
    let door = Door::new().await;
    door.database.execute("SELECT {schema}.register_kind('known', max_attempts => 7)").await;
    let id = door.enqueue(&json!({ "type": "known", "args": [] })).await;
    assert_eq!(door.job(&id).await["max_attempts"], 7);
    let id = door.enqueue(&json!({ "type": "known", "args": [], "retry": {} })).await;
    assert_eq!(door.job(&id).await["max_attempts"], 3);
}

#[test_support::test]
async fn a_pending_job_is_activated_once(door: Door) {
    let id = door.enqueue(&json!({ "type": "a", "args": [], "options": { "pending": true } })).await;
    assert_eq!(door.job(&id).await["state"], "pending");
    let path = format!("/jobs/{id}/activate");
    assert_eq!(door.post(&path, &json!({})).await.1["job"]["state"], "available");
    assert_eq!(door.post(&path, &json!({})).await.0, 409);
}

#[test_support::test]
async fn a_batch_with_one_bad_job_enqueues_none(door: Door) {
    let jobs = json!({ "jobs": [{ "type": "a", "args": [] }, { "type": "A", "args": [] }] });
    let (status, answer) = door.post("/jobs/batch", &jobs).await;
    assert_eq!((status, &answer["error"]["details"]["index"]), (400, &json!(1)));
    assert_eq!(door.database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

#[test_support::test]
async fn what_cannot_be_stored_or_read_is_refused_and_never_a_server_error(door: Door) {
    for (path, body) in [
        ("/jobs", r#"{"type": "a", "args": ["\u0000"]}"#),
        ("/jobs", r#"{"type": "a", "args": [], "meta": {"n": 1e999}}"#),
        ("/jobs", r#"{"type": "a", "args": [], "meta": {"ojs.door": 1}}"#),
        ("/jobs", r#"{"type": "a", "args": [], "options": {"timeout_ms": 0}}"#),
        ("/jobs", r#"{"type": "a", "args": [], "options": []}"#),
        ("/jobs", r#"{"type": "a", "args": [], "options": {"delay_until": "tomorrow"}}"#),
        ("/jobs", r#"{"type": "a", "args": [], "options": {"rate_limit": {"max_per_second": 0}}}"#),
        ("/jobs", "[]"),
        ("/jobs", "\"é"),
        ("/jobs/batch", "{}"),
        ("/workers/fetch", "{}"),
        ("/workers/fetch", r#"{"queues": ["a"], "count": 0}"#),
        ("/workers/fetch", r#"{"queues": ["\u0000"]}"#),
        ("/workers/fetch", r#"{"queues": ["a"], "worker_id": ""}"#),
        ("/workers/ack", "{}"),
        ("/workers/heartbeat", "{}"),
        ("/cron", r#"{"name": "x", "expression": "PT1S", "type": "a", "args": []}"#),
        ("/workflows", r#"{"type": "batch", "jobs": [{"type": "a", "args": []}]}"#),
        ("/workflows", r#"{"type": "chain", "steps": [{"type": "group", "jobs": []}]}"#),
    ] {
        let answer = door.send("POST", &format!("/ojs/v1{path}"), &[], body.into()).await;
        assert!([400, 422].contains(&answer.status), "{path} {body}: {answer:?}");
        let error = &answer.body.unwrap()["error"];
        assert_eq!(error["request_id"], answer.headers["x-request-id"].to_str().unwrap());
        assert_eq!(error["retryable"], false);
    }
    assert_eq!(door.get("/nothing").await.0, 404);
    assert_eq!(door.call("PUT", "/jobs", &Value::Null).await.0, 405);
    let page = [("Sec-Fetch-Site".to_owned(), "same-origin".to_owned())];
    assert_eq!(door.send("POST", "/ojs/v1/jobs", &page, br#"{"type": "a", "args": []}"#.to_vec()).await.status, 403);
    let version = [("OJS-Version".to_owned(), "2.0".to_owned())];
    assert_eq!(door.send("GET", "/ojs/v1/queues", &version, Vec::new()).await.status, 422);
}

#[test_support::test]
async fn access_is_nothing_reading_or_everything(door: Door) {
    let router = Ojs::new(door.database.client.clone()).access(|request| match request.headers().get("x-may") {
        None => Access::None,
        Some(_) => Access::Read,
    });
    let router = router.start().await.unwrap();
    let status = async |method: &str, path: &str, may: bool| {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if may {
            request = request.header("x-may", "read");
        }
        router.clone().oneshot(request.body(axum::body::Body::empty()).unwrap()).await.unwrap().status().as_u16()
    };
    assert_eq!(status("GET", "/ojs/v1/health", false).await, 200);
    assert_eq!(status("GET", "/ojs/v1/queues", false).await, 403);
    assert_eq!(status("GET", "/ojs/v1/queues", true).await, 200);
    assert_eq!(status("POST", "/ojs/v1/jobs", true).await, 403);
}

#[test_support::test]
async fn a_door_without_a_database_says_so_and_asks_to_retry(door: Door) {
    let away = door.database.another_pool(1).await;
    let client = Client::builder().schema(door.database.client.schema().clone()).pool(away.clone());
    let router = Ojs::new(client).start().await.unwrap();
    away.close().await;
    let request = |path: &str| Request::get(path).header("host", "localhost").body(axum::body::Body::empty()).unwrap();
    for path in ["/ojs/v1/health", "/ojs/v1/jobs/019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f"] {
        assert_eq!(router.clone().oneshot(request(path)).await.unwrap().status().as_u16(), 503, "{path}");
    }
}

#[tokio::test]
async fn doors_that_start_at_once_make_one_schema() {
    let database = test_support::Database::with_connections(10).await;
    let start = || Ojs::new(database.client.clone()).start();
    let (a, b, c, d) = tokio::join!(start(), start(), start(), start());
    assert!([a, b, c, d].into_iter().all(|started| started.is_ok()));
}

#[test_support::test]
async fn words_name_priorities(door: Door) {
    for (word, number) in [("HIGH", 10), ("NORMAL", 0), ("low", -10)] {
        let id = door.enqueue(&json!({ "type": "a", "args": [], "options": { "priority": word } })).await;
        assert_eq!(door.job(&id).await["priority"], number);
    }
    let (status, answer) = door.post("/jobs", &json!({ "type": "a", "args": [], "priority": "urgent" })).await;
    assert!(status == 400 && answer["error"]["message"].as_str().unwrap().contains("HIGH, NORMAL or LOW"), "{answer}");
}

#[test_support::test]
async fn a_body_of_another_media_type_is_refused(door: Door) {
    let body = json!({ "type": "a", "args": [] }).to_string().into_bytes();
    for (media_type, status) in [
        ("application/json", 201),
        ("Application/OpenJobSpec+JSON; charset=utf-8", 201),
        ("text/plain", 400),
        ("application/x-www-form-urlencoded", 400),
    ] {
        let headers = [("content-type".to_owned(), media_type.to_owned())];
        let answer = door.send("POST", "/ojs/v1/jobs", &headers, body.clone()).await;
        assert_eq!(answer.status, status, "{media_type}: {answer:?}");
    }
}

#[test_support::test]
async fn statistics_tell_what_was_done_in_the_last_hour(door: Door) {
    for outcome in ["ack", "nack"] {
        let id = door.enqueue(&json!({ "type": "a", "args": [] })).await;
        door.fetch("default", "w", 1).await;
        let report = json!({ "job_id": id, "error": { "code": "x", "message": "y" } });
        assert_eq!(door.post(&format!("/workers/{outcome}"), &report).await.0, 200);
    }
    uniqueue_remote::Remote::new(&door.database.client).stop_worker("w").await.unwrap();
    // The door's own pruner may have added up the first result alone, and does so again half a minute later.
    door.database.execute("SELECT {schema}._tend_history()").await;
    let began = std::time::Instant::now();
    loop {
        let (status, answer) = door.get("/queues/default/stats").await;
        assert_eq!(status, 200, "{answer}");
        let stats = &answer["stats"];
        if stats["completed_last_hour"] == 1 && stats["failed_last_hour"] == 1 {
            assert!(
                stats["throughput_per_second"].as_f64().unwrap() > 0.0 && stats["avg_wait_ms"].is_number(),
                "{stats}"
            );
            break;
        }
        assert!(began.elapsed() < test_support::WAIT, "{answer}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn refusals_of_a_server_around_the_router_are_in_the_words_of_ojs() {
    use axum::http::StatusCode;
    use axum::response::IntoResponse;
    use http_body_util::BodyExt;
    for (status, code, retryable) in [
        (StatusCode::UNAUTHORIZED, "unauthenticated", false),
        (StatusCode::TOO_MANY_REQUESTS, "rate_limited", true),
        (StatusCode::PAYLOAD_TOO_LARGE, "invalid_payload", false),
        (StatusCode::REQUEST_TIMEOUT, "invalid_request", true),
        (StatusCode::SERVICE_UNAVAILABLE, "backend_error", true),
    ] {
        let plain = (status, [("retry-after", "7")], "plain text").into_response();
        let answer = uniqueue_ojs::in_ojs_words(plain);
        let (head, body) = answer.into_parts();
        assert!(head.status == status && head.headers["retry-after"] == "7");
        assert_eq!(head.headers["content-type"], "application/openjobspec+json");
        let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        let error = &body["error"];
        assert_eq!((&error["code"], &error["retryable"]), (&json!(code), &json!(retryable)), "{body}");
        assert_eq!(json!(head.headers["x-request-id"].to_str().unwrap()), error["request_id"]);
    }
    let fine = uniqueue_ojs::in_ojs_words((StatusCode::OK, "fine").into_response());
    assert_eq!(fine.headers()["content-type"], "text/plain; charset=utf-8");
}

#[tokio::test(flavor = "multi_thread")]
async fn inserts_that_wait_for_a_slow_database_are_each_answered_once() {
    let door = std::sync::Arc::new(Door::new().await);
    let mut holder = door.database.pool().begin().await.unwrap();
    let lock = door.database.sql("LOCK TABLE {schema}.job IN ACCESS EXCLUSIVE MODE");
    sqlx::query(lock).execute(&mut *holder).await.unwrap();
    let mut inserts = tokio::task::JoinSet::new();
    for number in 0..50 {
        let door = std::sync::Arc::clone(&door);
        inserts.spawn(async move { door.post("/jobs", &json!({ "type": "a", "args": [number] })).await.0 });
    }
    // Far more than the pool has connections, all of which wait.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    drop(holder);
    assert_eq!(inserts.join_all().await, [201; 50]);
    assert_eq!(door.database.number("SELECT count(*) FROM {schema}.job").await, 50);
}

#[test_support::test]
async fn a_retry_of_a_dead_letter_has_all_attempts_again(door: Door) {
    let job =
        json!({ "type": "a", "args": [], "retry": { "max_attempts": 2, "initial_interval": "PT0S", "jitter": false } });
    let id = door.enqueue(&job).await;
    for round in 0..2 {
        for attempt in 1..=2 {
            let update = "UPDATE {schema}.job SET state = 'available', scheduled_at = now() WHERE state = 'retryable'";
            door.database.execute(update).await;
            let fetched = door.fetch("default", "w", 1).await;
            assert_eq!((&fetched[0]["attempt"], &fetched[0]["max_attempts"]), (&json!(attempt), &json!(2)), "{round}");
            let report = json!({ "job_id": id, "error": { "code": "x", "message": "y" } });
            assert_eq!(door.post("/workers/nack", &report).await.0, 200);
        }
        let (status, answer) = door.post(&format!("/dead-letter/{id}/retry"), &json!({})).await;
        assert_eq!((status, &answer["job"]["attempt"]), (200, &json!(0)), "{answer}");
        // All errors stay.
        assert_eq!(answer["job"]["errors"].as_array().unwrap().len(), 2 * (round + 1));
    }
}

#[test_support::test]
async fn null_means_absent_and_a_duplicate_names_its_key(door: Door) {
    let unique = json!({ "keys": ["type"], "states": null, "on_conflict": null, "period": null, "args_keys": null });
    let job =
        json!({ "type": "a", "args": [], "id": null, "retry": null, "meta": null, "priority": null, "unique": unique });
    door.enqueue(&job).await;
    let (status, answer) = door.post("/jobs", &job).await;
    let key = door.database.text("SELECT unique_key FROM {schema}.job").await;
    assert_eq!((status, &answer["error"]["details"]["uniqueness_key"]), (409, &json!(key)), "{answer}");
    let limit = json!({ "max_per_second": 5, "limit": null, "period": null });
    door.enqueue(&json!({ "type": "b", "args": [], "rate_limit": limit, "tags": null, "options": null })).await;
    let beat = json!({ "worker_id": "w", "active_jobs": null });
    assert_eq!(door.post("/workers/heartbeat", &beat).await.0, 200);
    let steps = json!([{ "id": "one", "type": "a", "args": [], "depends_on": null }]);
    assert_eq!(door.post("/workflows", &json!({ "name": null, "steps": steps })).await.0, 201);
}

#[test_support::test]
async fn every_refusal_is_json_also_those_of_the_router_itself(door: Door) {
    for (path, host, status) in [
        ("/ojs/v1/dead-letter?limit=1&limit=2", "localhost", 400),
        ("/ojs/v1/jobs/%FF", "localhost", 400),
        ("/ojs/v1/queues", "evil.example", 421),
    ] {
        let request = Request::get(path).header("host", host).body(axum::body::Body::empty()).unwrap();
        let answer = door.router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{path}");
        assert_eq!(answer.headers()["content-type"], "application/openjobspec+json", "{path}");
        let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert!(body["error"]["request_id"].is_string() && body["error"]["code"] == "invalid_request", "{body}");
    }
}

#[test_support::test]
async fn lists_and_counts_take_no_connection_of_work(door: Door) {
    door.enqueue(&json!({ "type": "a", "args": [] })).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(door.database.pool().acquire().await.unwrap());
    }
    for path in ["/queues", "/queues/default/stats", "/dead-letter", "/events"] {
        assert_eq!(door.get(path).await.0, 200, "{path}");
    }
    assert_eq!(door.get("/queues").await.1["queues"][0]["available"], 1);
}
