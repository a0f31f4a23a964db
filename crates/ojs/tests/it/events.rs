//! Events beyond what the suites ask.

use test_support::prelude::*;

use crate::fixture::{Door, text};
use crate::workflows::{complete, next};

/// The types of the events, the oldest first, and the events.
async fn events(door: &Door, query: &str) -> (Vec<String>, Vec<Value>) {
    let (status, answer) = door.get(&format!("/events?limit=100{query}")).await;
    assert_eq!(status, 200, "{answer}");
    let mut events = answer["events"].as_array().unwrap().clone();
    events.reverse();
    (events.iter().map(|event| text(&event["type"])).collect(), events)
}

#[test_support::test]
async fn each_event_of_a_job_tells_its_state_and_a_retry_has_an_event_of_its_own(door: Door) {
    let retry = json!({ "max_attempts": 2, "initial_interval": "PT1H" });
    let id = door.enqueue(&json!({ "type": "a", "args": [], "retry": retry })).await;
    let failed = json!({ "job_id": id, "error": { "code": "x", "message": "y" } });
    door.fetch("default", "w", 1).await;
    door.post("/workers/nack", &failed).await;
    let (_, all) = events(&door, "").await;
    let states: Vec<_> = all.iter().map(|event| text(&event["data"]["state"])).collect();
    assert_eq!(states, ["available", "active", "retryable", "retryable"]);
    for event in &all {
        assert_eq!((&event["data"]["job_id"], &event["data"]["queue"]), (&json!(id), &json!("default")));
        assert!(event["timestamp"].is_string() && event["type"].is_string(), "{event}");
    }
    door.database.execute("UPDATE {schema}.job SET scheduled_at = now() - interval '1 s'").await;
    next(&door, "default").await;
    door.post("/workers/nack", &failed).await;
    let (types, _) = events(&door, "&types=job.failed,job.retrying,job.discarded").await;
    assert_eq!(types[..2], ["job.failed", "job.retrying"]);
    // The row has one time for the last failure, and another one for the end.
    assert_eq!(
        BTreeSet::from_iter(&types[2..]),
        BTreeSet::from([&"job.failed".to_owned(), &"job.discarded".to_owned()])
    );
}

#[test_support::test]
async fn workflows_have_events_of_their_insert_their_start_and_their_end(door: Door) {
    let job = |queue: &str| json!({ "type": "a", "args": [], "queue": queue, "retry": { "max_attempts": 1 } });
    for name in ["good", "bad", "unwanted"] {
        let body = json!({ "type": "chain", "name": name, "steps": [job(name)] });
        let (_, answer) = door.post("/workflows", &body).await;
        if name == "unwanted" {
            let path = format!("/workflows/{}", text(&answer["workflow"]["id"]));
            assert_eq!(door.call("DELETE", &path, &Value::Null).await.0, 200);
        }
    }
    complete(&door, &next(&door, "good").await, Value::Null).await;
    let bad = next(&door, "bad").await;
    door.post("/workers/nack", &json!({ "job_id": bad["id"], "error": { "code": "x", "message": "y" } })).await;
    let types = "&types=workflow.created,workflow.started,workflow.completed,workflow.failed,workflow.cancelled";
    let (_, all) = events(&door, types).await;
    let of = |name: &str| -> Vec<String> {
        let own = all.iter().filter(|event| event["data"]["workflow_name"] == name);
        own.map(|event| text(&event["type"])).collect()
    };
    assert_eq!(of("good"), ["workflow.created", "workflow.started", "workflow.completed"]);
    assert_eq!(of("bad"), ["workflow.created", "workflow.started", "workflow.failed"]);
    assert_eq!(of("unwanted"), ["workflow.created", "workflow.cancelled"]);
    assert!(events(&door, &format!("{types}&queues=good")).await.0.is_empty(), "a workflow is in no queue");
}

#[test_support::test]
async fn events_of_a_queue_are_looked_for_among_the_newest_10_000_jobs(door: Door) {
    door.enqueue(&json!({ "type": "old", "args": [], "queue": "rare" })).await;
    let fill = "INSERT INTO {schema}.job (id, kind, queue)
        SELECT ('fffffff0-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'a', 'often' FROM generate_series(1, 10000) AS g (n)";
    door.database.execute(fill).await;
    assert!(events(&door, "&queues=rare").await.0.is_empty(), "10,000 jobs are newer");
    door.database.execute("DELETE FROM {schema}.job WHERE id = 'fffffff0-0000-7000-8000-000000000001'").await;
    assert_eq!(events(&door, "&queues=rare").await.0, ["job.enqueued"]);
    door.database.execute("UPDATE {schema}.job SET errors = '\"a note by hand\"' WHERE queue = 'rare'").await;
    assert_eq!(events(&door, "&queues=rare&types=job.failed").await.0, ["job.failed"]);
}
