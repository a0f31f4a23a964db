//! Workflows in workflows.

use test_support::prelude::*;

use crate::fixture::{Door, text};
use crate::workflows::{complete, next};

/// A job in a queue of its own name.
fn job(queue: &str) -> Value {
    json!({ "type": "step", "args": [queue], "options": { "queue": queue, "retry": { "max_attempts": 1 } } })
}

fn chain(steps: &[Value]) -> Value {
    json!({ "type": "chain", "steps": steps })
}

fn group(jobs: &[Value]) -> Value {
    json!({ "type": "group", "jobs": jobs })
}

async fn create(door: &Door, workflow: &Value) -> String {
    let (status, answer) = door.post("/workflows", workflow).await;
    assert_eq!(status, 201, "{answer}");
    format!("/workflows/{}", text(&answer["workflow"]["id"]))
}

async fn fail(door: &Door, job: &Value) {
    let report = json!({ "job_id": job["id"], "error": { "code": "broken", "message": "no luck" } });
    assert_eq!(door.post("/workers/nack", &report).await.1["state"], "discarded");
}

/// The workflow as soon as it is in a state.
async fn until(door: &Door, path: &str, state: &str) -> Value {
    let mut answer = eventually!(
        let answer = door.get(path).await.1;
        answer["workflow"]["state"] == state, "not {state}: {answer}"
    );
    answer["workflow"].take()
}

#[test_support::test]
async fn a_group_in_a_chain_runs_after_the_step_before_it_and_its_results_are_one_result(door: Door) {
    let path = create(&door, &chain(&[job("extract"), group(&[job("csv"), job("pdf")]), job("load")])).await;
    assert!(door.fetch("csv", "w", 1).await.is_empty());
    complete(&door, &next(&door, "extract").await, json!({ "report": 1 })).await;
    for queue in ["csv", "pdf"] {
        let job = next(&door, queue).await;
        assert_eq!(job["parent_results"], json!([{ "report": 1 }]));
        assert!(door.fetch("load", "w", 1).await.is_empty());
        complete(&door, &job, json!({ "path": queue })).await;
    }
    let load = next(&door, "load").await;
    assert_eq!(load["parent_results"], json!([{ "0": { "path": "csv" }, "1": { "path": "pdf" } }]));
    let (_, answer) = door.get(&path).await;
    let inner = &answer["workflow"]["steps"][1];
    assert_eq!(
        (&inner["type"], &inner["state"], &inner["jobs_completed"]),
        (&json!("group"), &json!("completed"), &json!(2))
    );
    complete(&door, &load, Value::Null).await;
    let workflow = until(&door, &path, "completed").await;
    assert_eq!((&workflow["steps_total"], &workflow["steps_completed"]), (&json!(3), &json!(3)));
    let counts = &workflow["metadata"];
    assert_eq!(
        (&counts["job_count"], &counts["completed_count"], &counts["failed_count"]),
        (&json!(4), &json!(4), &json!(0))
    );
}

#[test_support::test]
async fn a_chain_in_a_group_that_fails_stops_alone_and_fails_the_group(door: Door) {
    let chains = [chain(&[job("a1"), job("a2")]), chain(&[job("b1"), job("b2")])];
    let path = create(&door, &group(&chains)).await;
    let failing = next(&door, "a1").await;
    fail(&door, &failing).await;
    for queue in ["b1", "b2"] {
        complete(&door, &next(&door, queue).await, Value::Null).await;
    }
    let workflow = until(&door, &path, "failed").await;
    let states: Vec<_> = (0..2).map(|place| workflow["jobs"][place]["state"].clone()).collect();
    assert_eq!(states, [json!("failed"), json!("completed")]);
    assert_eq!(workflow["jobs"][0]["steps"][1]["state"], "cancelled");
    assert_eq!(workflow["failed_job_ids"], json!([failing["id"]]));
    assert_eq!(
        (&workflow["errors"][0]["code"], &workflow["errors"][0]["message"]),
        (&json!("broken"), &json!("no luck"))
    );
    assert!(door.fetch("a2", "w", 1).await.is_empty());
}

#[test_support::test]
async fn a_batch_in_a_chain_is_awaited_with_its_callback_and_cancelled_with_the_chain(door: Door) {
    let batch = json!({ "type": "batch", "jobs": [job("one")], "callbacks": { "on_complete": job("after") } });
    let steps = chain(&[job("first"), batch, job("last")]);
    create(&door, &steps).await;
    for queue in ["first", "one"] {
        complete(&door, &next(&door, queue).await, json!(queue)).await;
    }
    let callback = next(&door, "after").await;
    assert_eq!(callback["parent_results"], json!(["one"]), "those of its own jobs");
    assert!(door.fetch("last", "w", 1).await.is_empty());
    complete(&door, &callback, json!("after")).await;
    let last = next(&door, "last").await;
    assert_eq!(last["parent_results"], json!(["after"]));
    complete(&door, &last, Value::Null).await;
    // Where the first step fails, the callback is no end of the batch, which never began.
    let path = create(&door, &steps).await;
    fail(&door, &next(&door, "first").await).await;
    let workflow = until(&door, &path, "failed").await;
    assert_eq!((&workflow["failed_step_index"], &workflow["steps"][1]["state"]), (&json!(0), &json!("cancelled")));
    assert_eq!(door.database.number("SELECT count(*) FROM {schema}.job WHERE state = 'cancelled'").await, 3);
}

#[test_support::test]
async fn the_callbacks_of_a_batch_run_after_all_jobs_of_a_workflow_in_it(door: Door) {
    let inner = chain(&[group(&[job("a"), job("b")]), job("c")]);
    let callbacks = json!({ "on_complete": job("complete"), "on_failure": job("failure") });
    let path = create(&door, &json!({ "type": "batch", "jobs": [inner], "callbacks": callbacks })).await;
    fail(&door, &next(&door, "a").await).await;
    // The last job is cancelled at once, and both callbacks have noticed it.
    let noticed = "SELECT count(*) FROM {schema}.job_parent WHERE outcome = 'cancelled'";
    door.database.until(noticed, 2).await;
    for queue in ["complete", "failure"] {
        assert!(door.fetch(queue, "w", 1).await.is_empty(), "{queue} runs before b has ended");
    }
    complete(&door, &next(&door, "b").await, json!("b")).await;
    for queue in ["complete", "failure"] {
        let callback = next(&door, queue).await;
        assert_eq!(callback["parent_results"], json!([null]), "that of the last job");
        complete(&door, &callback, Value::Null).await;
    }
    let workflow = until(&door, &path, "completed").await;
    assert_eq!(workflow["jobs"][0]["state"], "failed");
}

#[test_support::test]
async fn the_result_of_an_older_job_that_a_unique_step_stands_for_keeps_the_place_of_the_step(door: Door) {
    let mut unique = job("unique");
    unique["unique"] = json!({ "keys": ["type", "args"], "on_conflict": "ignore" });
    let callbacks = json!({ "on_complete": job("after") });
    for (workflow, results) in [
        (chain(&[group(&[job("plain"), unique.clone()]), job("after")]), json!([{ "0": "plain", "1": "unique" }])),
        (
            json!({ "type": "batch", "jobs": [job("plain"), unique.clone()], "callbacks": callbacks }),
            json!(["plain", "unique"]),
        ),
    ] {
        door.enqueue(&unique).await;
        create(&door, &workflow).await;
        complete(&door, &next(&door, "plain").await, json!("plain")).await;
        complete(&door, &next(&door, "unique").await, json!("unique")).await;
        let after = next(&door, "after").await;
        assert_eq!(after["parent_results"], results);
        assert_eq!(door.job(&text(&after["id"])).await["parent_results"], results);
    }
}

#[test_support::test]
async fn results_in_a_graph_are_in_the_order_of_the_workflow_however_a_step_names_those_it_depends_on(door: Door) {
    let named = |mut step: Value, id: &str, after: &[&str]| {
        step["id"] = json!(id);
        step["depends_on"] = json!(after);
        step
    };
    let both = named(group(&[job("a"), job("b")]), "both", &[]);
    let last = named(job("last"), "last", &["one", "both", "one"]);
    create(&door, &json!({ "steps": [both, named(job("one"), "one", &[]), last] })).await;
    for queue in ["a", "b", "one"] {
        complete(&door, &next(&door, queue).await, json!(queue)).await;
    }
    let last = next(&door, "last").await;
    assert_eq!(last["parent_results"], json!([{ "0": "a", "1": "b" }, "one"]));
}

#[test_support::test]
async fn a_workflow_that_cannot_be_is_refused_when_it_is_created(door: Door) {
    let mut deep = job("a");
    for _ in 0..6 {
        deep = chain(&[deep]);
    }
    let callbacks = json!({ "on_success": job("ok") });
    let batch = json!({ "type": "batch", "jobs": [job("one")], "callbacks": callbacks });
    let many = |count: usize| group(&vec![job("a"); count]);
    for (workflow, status, text) in [
        (deep.clone(), 400, "deeper than 5 levels"),
        (chain(&[batch, job("last")]), 422, "on_complete alone"),
        (chain(&[many(101), many(100)]), 400, "too large"),
        (chain(&[many(500), many(501)]), 400, "too large"),
        (chain(&[json!({ "type": "step", "steps": [job("a")] })]), 400, "chain, group or batch"),
    ] {
        let (found, answer) = door.post("/workflows", &workflow).await;
        assert!(found == status && answer["error"]["message"].as_str().unwrap().contains(text), "{text}: {answer}");
    }
    assert_eq!(door.database.number("SELECT count(*) FROM {schema}.job").await, 0);
    // Five levels are allowed, and cancelled as one.
    let path = create(&door, &deep["steps"][0]).await;
    let (_, answer) = door.call("DELETE", &path, &Value::Null).await;
    assert_eq!(
        (&answer["workflow"]["state"], &answer["workflow"]["steps_cancelled"]),
        (&json!("cancelled"), &json!(1))
    );
}
