//! Workflows and cron entries beyond what the suites ask.

use test_support::prelude::*;
use uniqueue_ojs::Ojs;

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

#[test_support::test]
async fn a_graph_runs_each_step_after_those_it_depends_on(door: Door) {
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

#[test_support::test]
async fn a_graph_with_a_circle_is_refused_and_inserts_nothing(door: Door) {
    for steps in [
        json!([step("a", &["b"]), step("b", &["a"])]),
        json!([step("a", &["missing"])]),
        json!([step("a", &[]), step("a", &[])]),
    ] {
        assert_eq!(door.post("/workflows", &json!({ "name": "x", "steps": steps })).await.0, 400);
    }
    assert_eq!(door.database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

#[test_support::test]
async fn a_batch_whose_jobs_fail_completes_with_its_callbacks(door: Door) {
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

#[test_support::test]
async fn a_workflow_is_not_older_than_its_insert_where_its_first_step_is_an_older_job(door: Door) {
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

#[test_support::test]
async fn a_cron_entry_of_a_name_that_is_there_is_refused_and_one_that_is_invalid_leaves_no_trace(door: Door) {
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

#[test_support::test]
async fn the_overlap_policies_are_keys_and_groups_of_the_queue(door: Door) {
    for policy in ["skip", "cancel_previous", "enqueue", "allow"] {
        let entry = json!({ "name": policy, "cron": "0 9 * * *", "overlap_policy": policy,
            "type": "a", "args": [], "options": { "queue": policy } });
        assert_eq!(door.post("/cron", &entry).await.0, 201);
        for _ in 0..2 {
            let name = format!("ojs:{policy}");
            Admin::new(&door.database.client).periodic().run_now(&name).await.unwrap();
        }
    }
    let waiting = async |queue: &str| door.fetch(queue, queue, 10).await.len();
    assert_eq!(waiting("skip").await, 1);
    assert_eq!(waiting("cancel_previous").await, 1);
    assert_eq!(waiting("enqueue").await, 1, "one at a time");
    assert_eq!(waiting("allow").await, 2);
}

/// A step that is unique by its queue alone.
fn unique_step(id: &str, key: &str, after: &[&str], on_conflict: &str) -> Value {
    let mut step = step(id, after);
    step["options"]["queue"] = json!(key);
    step["options"]["unique"] = json!({ "keys": ["type", "queue"], "on_conflict": on_conflict });
    step
}

/// Works two steps of a workflow, and returns the results that the queues `last` and `all` get.
async fn results_after(door: &Door, steps: &Value, work: [(&str, u32); 2]) -> (Value, Value) {
    let (status, answer) = door.post("/workflows", &json!({ "name": "duplicates", "steps": steps })).await;
    assert_eq!(status, 201, "{answer}");
    for (queue, n) in work {
        complete(door, &next(door, queue).await, json!(n)).await;
    }
    let (last, all) = (next(door, "last").await, next(door, "all").await);
    assert_eq!(door.job(&text(&last["id"])).await["parent_results"], last["parent_results"]);
    (last["parent_results"].clone(), all["parent_results"].clone())
}

#[tokio::test]
async fn a_step_that_is_a_duplicate_of_another_step_has_the_result_of_that_step() {
    for on_conflict in ["ignore", "replace"] {
        let door = Door::new().await;
        let steps = json!([
            unique_step("one", "x", &[], on_conflict),
            unique_step("two", "y", &[], on_conflict),
            unique_step("same as one", "x", &[], on_conflict),
            step("last", &["two", "same as one"]),
            step("all", &["one", "two", "same as one"]),
        ]);
        let (last, all) = results_after(&door, &steps, [("x", 1), ("y", 2)]).await;
        assert_eq!(last, json!([2, 1]), "{on_conflict}");
        assert_eq!(all, json!([1, 2, 1]), "{on_conflict}");
    }
}

#[test_support::test]
async fn a_duplicate_in_a_nested_workflow_keeps_the_shape_of_its_results(door: Door) {
    let job = |queue: &str| unique_step(queue, queue, &[], "ignore");
    let inner = json!({ "type": "group", "jobs": [job("x"), job("y"), job("x")] });
    let steps = json!([inner, { "type": "chain", "steps": [step("last", &[])] }]);
    let (status, answer) = door.post("/workflows", &json!({ "type": "chain", "steps": steps })).await;
    assert_eq!(status, 201, "{answer}");
    for (queue, n) in [("x", 1), ("y", 2)] {
        complete(&door, &next(&door, queue).await, json!(n)).await;
    }
    assert_eq!(next(&door, "last").await["parent_results"], json!([{ "0": 1, "1": 2, "2": 1 }]));
}

#[test_support::test]
async fn a_step_that_was_replaced_has_the_result_of_its_last_successor(door: Door) {
    let steps = json!([
        unique_step("one", "x", &[], "replace"),
        unique_step("two", "y", &[], "replace"),
        step("last", &["one", "two"]),
        step("all", &["two"]),
    ]);
    let (status, answer) = door.post("/workflows", &json!({ "name": "replaced", "steps": steps })).await;
    assert_eq!(status, 201, "{answer}");
    let mut other = unique_step("other", "x", &[], "replace");
    other.as_object_mut().unwrap().remove("id");
    for _ in 0..2 {
        door.enqueue(&other).await;
    }
    complete(&door, &next(&door, "y").await, json!(2)).await;
    complete(&door, &next(&door, "x").await, json!(1)).await;
    let last = next(&door, "last").await;
    assert_eq!(last["parent_results"], json!([1, 2]));
    // Later the rows of the replaced jobs may be deleted.
    let deleted = door
        .database
        .number("WITH d AS (DELETE FROM {schema}.job WHERE state = 'cancelled' RETURNING 1) SELECT count(*) FROM d")
        .await;
    assert_eq!(deleted, 2);
    assert_eq!(door.job(&text(&last["id"])).await["parent_results"], json!([1, 2]));
    // With the row of another step gone too, nothing tells whose the output is that is left.
    door.database.execute("DELETE FROM {schema}.job WHERE output = '2'").await;
    assert_eq!(door.job(&text(&last["id"])).await["parent_results"], json!([null, null]));
}

#[test_support::test]
async fn a_door_notes_the_end_of_every_workflow_that_ended_without_it(door: Door) {
    let steps: Value = (0..10).map(|place| step(&format!("s{place}"), &[])).collect();
    let (status, answer) = door.post("/workflows", &json!({ "steps": steps })).await;
    assert_eq!(status, 201, "{answer}");
    let id = door.post("/workflows", &json!({ "steps": [step("waits", &[])] })).await.1;
    let id = text(&id["workflow"]["id"]).to_owned();
    // More workflows, and more jobs, than one statement reads. Jobs that retention has deleted had completed.
    let table = format!("\"{}_ojs\".workflow", door.database.client.schema().as_str());
    let copies = format!(
        "INSERT INTO {table} (id, kind, name, parts, jobs)
         SELECT gen_random_uuid(), kind, name, parts, jobs FROM {table}, generate_series(1, 600) WHERE id <> '{id}'"
    );
    door.database.execute(&copies).await;
    door.database.execute("DELETE FROM {schema}.job WHERE queue <> 'waits'").await;
    let another = Ojs::new(door.database.client.clone()).start().await.unwrap();
    let running = format!("SELECT string_agg(id::text, ',') FROM {table} WHERE state = 'running'");
    eventually!(door.database.text(&running).await == id, "{}", door.database.text(&running).await);
    let ended = format!("SELECT count(*)::text FROM {table} WHERE state = 'completed' AND ended_at IS NOT NULL");
    assert_eq!(door.database.text(&ended).await, "601");
    drop(another);
}
