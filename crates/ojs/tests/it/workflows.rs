//! Workflows and cron entries beyond what the suites ask.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::{Door, text};

fn step(id: &str, after: &[&str]) -> Value {
    json!({ "id": id, "type": "step", "args": [id], "depends_on": after, "options": { "queue": id } })
}

/// Fetches the one job of a queue as soon as there is one.
pub(crate) async fn next(door: &Door, queue: &str) -> Value {
    let began = Instant::now();
    loop {
        if let Some(job) = door.fetch(queue, "w", 1).await.pop() {
            return job;
        }
        assert!(began.elapsed() < test_support::WAIT, "no job in {queue}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn complete(door: &Door, job: &Value, result: Value) {
    let (status, answer) = door.post("/workers/ack", &json!({ "job_id": job["id"], "result": result })).await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test]
async fn a_graph_runs_each_step_after_those_it_depends_on() {
    let door = Door::open(3).await;
    let steps = json!([
        step("last", &["left", "right"]),
        step("left", &["first"]),
        step("right", &["first"]),
        step("first", &[])
    ]);
    let (status, answer) = door.post("/workflows", &json!({ "name": "diamond", "steps": steps })).await;
    assert_eq!(status, 201, "{answer}");
    let path = format!("/workflows/{}", text(&answer["workflow"]["id"]));
    assert!(door.fetch("left", "w", 1).await.is_empty());
    complete(&door, &next(&door, "first").await, json!({ "n": 1 })).await;
    for (queue, n) in [("left", 2), ("right", 3)] {
        let job = next(&door, queue).await;
        assert_eq!(job["parent_results"], json!([{ "n": 1 }]));
        complete(&door, &job, json!({ "n": n })).await;
    }
    let last = next(&door, "last").await;
    assert_eq!(last["parent_results"], json!([{ "n": 2 }, { "n": 3 }]));
    complete(&door, &last, Value::Null).await;
    let (_, answer) = door.get(&path).await;
    assert_eq!(
        (&answer["workflow"]["state"], &answer["workflow"]["steps_completed"]),
        (&json!("completed"), &json!(4))
    );
    assert_eq!(door.call("DELETE", &path, &Value::Null).await.0, 409);
}

#[tokio::test]
async fn a_graph_with_a_circle_is_refused_and_inserts_nothing() {
    let door = Door::open(3).await;
    for steps in [
        json!([step("a", &["b"]), step("b", &["a"])]),
        json!([step("a", &["missing"])]),
        json!([step("a", &[]), step("a", &[])]),
    ] {
        assert_eq!(door.post("/workflows", &json!({ "name": "x", "steps": steps })).await.0, 400);
    }
    assert_eq!(door.database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

#[tokio::test]
async fn a_batch_whose_jobs_fail_completes_with_its_callbacks() {
    let door = Door::open(3).await;
    let job = json!({ "type": "a", "args": [], "retry": { "max_attempts": 1 }, "queue": "work" });
    let callback = |queue: &str| json!({ "type": "b", "args": [], "queue": queue });
    let body = json!({ "type": "batch", "jobs": [job], "callbacks": {
        "on_success": callback("success"), "on_failure": callback("failure"), "on_complete": callback("complete") } });
    let (_, answer) = door.post("/workflows", &body).await;
    let path = format!("/workflows/{}", text(&answer["workflow"]["id"]));
    let job = next(&door, "work").await;
    door.post("/workers/nack", &json!({ "job_id": job["id"], "error": { "code": "x", "message": "y" } })).await;
    for queue in ["failure", "complete"] {
        complete(&door, &next(&door, queue).await, Value::Null).await;
    }
    assert!(door.fetch("success", "w", 1).await.is_empty());
    let (_, answer) = door.get(&path).await;
    let workflow = &answer["workflow"];
    assert_eq!((&workflow["state"], &workflow["jobs_failed"]), (&json!("completed"), &json!(1)));
}

#[tokio::test]
async fn a_workflow_is_not_older_than_its_insert_where_its_first_step_is_an_older_job() {
    let door = Door::open(3).await;
    let unique = json!({ "type": "a", "args": [], "unique": { "keys": ["type"], "on_conflict": "ignore" } });
    door.enqueue(&unique).await;
    let holder = next(&door, "default").await;
    door.database.pass(Duration::from_secs(600)).await;
    let jobs = json!([unique, { "type": "b", "args": [] }]);
    let (_, answer) = door.post("/workflows", &json!({ "type": "group", "jobs": jobs })).await;
    let workflow = &answer["workflow"];
    assert_eq!(workflow["jobs"][0]["job_id"], holder["id"]);
    assert!(text(&workflow["created_at"]) > text(&holder["created_at"]), "{answer}");
    assert_eq!(workflow["metadata"]["started_at"], workflow["created_at"]);
}

#[tokio::test]
async fn a_cron_entry_of_a_name_that_is_there_is_refused_and_one_that_is_invalid_leaves_no_trace() {
    let door = Door::open(3).await;
    let entry = json!({ "name": "n", "cron": "0 9 * * *", "type": "a", "args": [] });
    assert_eq!(door.post("/cron", &entry).await.0, 201);
    assert_eq!(door.post("/cron", &entry).await.0, 409);
    for (member, value) in [("timezone", "Mars/Base"), ("cron", "x"), ("overlap_policy", "odd"), ("type", "A")] {
        let mut other = entry.clone();
        other["name"] = json!("other");
        other[member] = json!(value);
        assert_eq!(door.post("/cron", &other).await.0, 400, "{member}");
    }
    assert_eq!(door.get("/cron").await.1["crons"].as_array().unwrap().len(), 1);
    assert_eq!(door.call("DELETE", "/cron/n", &Value::Null).await.0, 200);
    assert_eq!(door.call("DELETE", "/cron/n", &Value::Null).await.0, 404);
    assert_eq!(door.database.number("SELECT count(*) FROM {schema}.periodic").await, 0);
}

#[tokio::test]
async fn the_overlap_policies_are_keys_and_groups_of_the_queue() {
    let door = Door::open(3).await;
    for policy in ["skip", "cancel_previous", "enqueue", "allow"] {
        let entry = json!({ "name": policy, "cron": "0 9 * * *", "overlap_policy": policy,
            "type": "a", "args": [], "options": { "queue": policy } });
        assert_eq!(door.post("/cron", &entry).await.0, 201);
        for _ in 0..2 {
            let name = format!("ojs:{policy}");
            door.database.client.periodic().run_now(&name).await.unwrap();
        }
    }
    let waiting = async |queue: &str| door.fetch(queue, queue, 10).await.len();
    assert_eq!(waiting("skip").await, 1);
    assert_eq!(waiting("cancel_previous").await, 1);
    assert_eq!(waiting("enqueue").await, 1, "one at a time");
    assert_eq!(waiting("allow").await, 2);
}
