//! The scenarios that the specification of unique jobs demands (section 14), and crowds that insert one key.

use test_support::prelude::*;

use crate::fixture::{Door, post_to, text};

fn email(unique: Value) -> Value {
    json!({ "type": "email.send", "args": { "user_id": 42, "locale": "en" }, "unique": unique })
}

fn with(mut job: Value, name: &str, value: Value) -> Value {
    job[name] = value;
    job
}

#[test_support::test]
async fn scenario_1_a_second_identical_job_is_rejected(door: Door) {
    let job = email(json!({ "keys": ["type", "args"], "on_conflict": "reject" }));
    let first = door.enqueue(&job).await;
    let (status, answer) = door.post("/jobs", &job).await;
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("duplicate")));
    let details = &answer["error"]["details"];
    assert_eq!((&details["existing_job_id"], &details["existing_job_state"]), (&json!(first), &json!("available")));
}

#[test_support::test]
async fn scenario_2_args_keys_leave_other_args_out(door: Door) {
    let job = email(json!({ "keys": ["type", "args"], "args_keys": ["user_id"] }));
    door.enqueue(&job).await;
    let other = with(job.clone(), "args", json!({ "user_id": 42, "locale": "de" }));
    assert_eq!(door.post("/jobs", &other).await.0, 409);
    door.enqueue(&with(job, "args", json!({ "user_id": 43, "locale": "en" }))).await;
    // The same by the JSON format's `key`, and in the first of positional args.
    let job =
        json!({ "type": "sms.send", "args": [{ "to": 1, "text": "a" }], "options": { "unique": { "key": ["to"] } } });
    door.enqueue(&job).await;
    assert_eq!(door.post("/jobs", &with(job, "args", json!([{ "to": 1, "text": "b" }]))).await.0, 409);
}

#[test_support::test]
async fn scenario_3_a_key_is_free_after_its_period(door: Door) {
    let job = email(json!({ "keys": ["type"], "period": "PT1H" }));
    door.enqueue(&job).await;
    door.database.pass(Duration::from_secs(3_590)).await;
    assert_eq!(door.post("/jobs", &job).await.0, 409);
    door.database.pass(Duration::from_secs(11)).await;
    door.enqueue(&job).await;
}

async fn complete(door: &Door, queue: &str) {
    let job = door.fetch(queue, "w", 1).await.remove(0);
    let (status, answer) = door.post("/workers/ack", &json!({ "job_id": job["id"], "worker_id": "w" })).await;
    assert_eq!((status, &answer["state"]), (200, &json!("completed")));
}

#[test_support::test]
async fn scenario_4_a_completed_job_is_no_duplicate_by_default(door: Door) {
    let job = email(json!({ "keys": ["type"] }));
    door.enqueue(&job).await;
    complete(&door, "default").await;
    door.enqueue(&job).await;
}

#[test_support::test]
async fn scenario_5_a_completed_job_is_a_duplicate_where_the_states_say_so(door: Door) {
    let job = email(json!({ "keys": ["type"], "states": ["available", "active", "completed"] }));
    door.enqueue(&job).await;
    complete(&door, "default").await;
    let (status, answer) = door.post("/jobs", &job).await;
    assert_eq!((status, &answer["error"]["details"]["existing_job_state"]), (409, &json!("completed")));
}

#[test_support::test]
async fn scenario_6_replace_cancels_the_job_and_enqueues_the_new_one(door: Door) {
    let job = email(json!({ "keys": ["type"], "on_conflict": "replace" }));
    let first = door.enqueue(&job).await;
    let (status, answer) = door.post("/jobs", &job).await;
    assert_eq!((status, &answer["replaced_job_id"]), (201, &json!(first)));
    let replaced = door.job(&first).await;
    assert_eq!((&replaced["state"], &replaced["replaced_by"]), (&json!("cancelled"), &answer["job"]["id"]));
    // The time of a scheduled job stays.
    let later = json!({ "type": "note.send", "args": [1], "scheduled_at": "2099-01-01T00:00:00Z",
        "unique": { "keys": ["type"], "on_conflict": "replace_except_schedule" } });
    door.enqueue(&later).await;
    let (_, answer) = door.post("/jobs", &with(later, "scheduled_at", json!("2098-01-01T00:00:00Z"))).await;
    assert_eq!(answer["job"]["scheduled_at"], "2099-01-01T00:00:00Z");
}

#[test_support::test]
async fn scenario_7_ignore_returns_the_job_that_is_there(door: Door) {
    let job = email(json!({ "keys": ["type"], "on_conflict": "ignore" }));
    let first = door.enqueue(&job).await;
    let (status, answer) = door.post("/jobs", &job).await;
    assert_eq!((status, &answer["job"]["id"], &answer["deduplicated"]), (200, &json!(first), &json!(true)));
}

#[test_support::test]
async fn scenario_8_the_same_type_on_another_queue_is_no_duplicate_by_queue(door: Door) {
    let job = email(json!({ "keys": ["type", "queue"] }));
    door.enqueue(&with(job.clone(), "queue", json!("a"))).await;
    door.enqueue(&with(job.clone(), "queue", json!("b"))).await;
    assert_eq!(door.post("/jobs", &with(job, "queue", json!("a"))).await.0, 409);
}

#[test_support::test]
async fn scenario_9_meta_without_meta_keys_is_refused(door: Door) {
    for unique in [
        json!({ "keys": ["meta"] }),
        json!({ "keys": ["type", "odd"] }),
        json!({ "states": ["odd"] }),
        json!({ "period": "soon" }),
        json!({ "on_conflict": "odd" }),
        json!({ "keys": ["args"], "args_keys": ["missing"] }),
        json!({ "odd": 1 }),
        json!({ "states": [] }),
    ] {
        let (status, answer) = door.post("/jobs", &email(unique.clone())).await;
        assert_eq!(status, 400, "{unique}: {answer}");
    }
}

#[test_support::test]
async fn scenario_10_a_job_that_waits_for_its_retry_is_a_duplicate(door: Door) {
    let job = with(email(json!({ "keys": ["type"] })), "retry", json!({ "initial_interval": "PT1H" }));
    let id = door.enqueue(&job).await;
    door.fetch("default", "w", 1).await;
    let (_, answer) =
        door.post("/workers/nack", &json!({ "job_id": id, "error": { "code": "x", "message": "y" } })).await;
    assert_eq!(answer["state"], "retryable");
    let (status, answer) = door.post("/jobs", &job).await;
    assert_eq!((status, &answer["error"]["details"]["existing_job_state"]), (409, &json!("retryable")));
}

/// Sends a hundred identical inserts at once, to two processes of the door. Returns the answers.
async fn crowd(door: &Arc<Door>, strategy: &str) -> Vec<(u16, Value)> {
    let other = uniqueue_ojs::Ojs::new(door.database.client.clone()).start().await.unwrap();
    let job = email(json!({ "keys": ["type", "args"], "on_conflict": strategy }));
    let mut inserts = JoinSet::new();
    for number in 0..100 {
        let (door, job) = (Arc::clone(door), job.clone());
        let router = if number % 2 == 0 { door.router.clone() } else { other.clone() };
        inserts.spawn(async move { post_to(router, "/jobs", &job).await });
    }
    inserts.join_all().await
}

fn counts(answers: &[(u16, Value)]) -> BTreeMap<u16, usize> {
    answers.iter().fold(BTreeMap::new(), |mut counts, (status, _)| {
        *counts.entry(*status).or_default() += 1;
        counts
    })
}

/// The number of jobs in a state.
async fn in_state(door: &Door, state: &str) -> i64 {
    door.database.number(&format!("SELECT count(*) FROM {{schema}}.job WHERE state = '{state}'")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_11_of_a_hundred_at_once_one_is_enqueued_and_the_others_are_rejected() {
    let door = Arc::new(Door::with_connections(10).await);
    let answers = crowd(&door, "reject").await;
    assert_eq!(counts(&answers), BTreeMap::from([(201, 1), (409, 99)]), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_at_once_one_is_enqueued_and_the_others_get_it_with_ignore() {
    let door = Arc::new(Door::with_connections(10).await);
    let answers = crowd(&door, "ignore").await;
    assert_eq!(counts(&answers), BTreeMap::from([(200, 99), (201, 1)]), "{answers:?}");
    let ids: BTreeSet<_> = answers.iter().map(|(_, answer)| text(&answer["job"]["id"])).collect();
    assert_eq!(ids.len(), 1);
}

/// The specification demands that each of them replaces the one before it: a duplicate with `replace` must cancel the job and
/// enqueue the new one, which is answered with 201 (section 5.2, L4-UNIQ-003). So none is a duplicate that keeps its job.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_at_once_the_last_one_lives_with_replace() {
    for strategy in ["replace", "replace_except_schedule"] {
        let door = Arc::new(Door::with_connections(10).await);
        let answers = crowd(&door, strategy).await;
        assert_eq!(counts(&answers), BTreeMap::from([(201, 100)]), "{strategy}: {answers:?}");
        assert_eq!((in_state(&door, "available").await, in_state(&door, "cancelled").await), (1, 99));
        // A chain without a fork: each job but the first replaced another one.
        let replaced: BTreeSet<_> = answers.iter().map(|(_, answer)| answer["replaced_job_id"].to_string()).collect();
        assert_eq!(replaced.len(), 100, "{strategy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_at_once_none_replaces_an_active_job() {
    for (strategy, status) in [("reject", 409), ("ignore", 200), ("replace", 409), ("replace_except_schedule", 409)] {
        let door = Arc::new(Door::with_connections(10).await);
        let active = door.enqueue(&email(json!({ "keys": ["type", "args"] }))).await;
        door.fetch("default", "w", 1).await;
        let answers = crowd(&door, strategy).await;
        assert_eq!(counts(&answers), BTreeMap::from([(status, 100)]), "{strategy}: {answers:?}");
        assert_eq!(door.job(&active).await["state"], "active");
        assert_eq!(in_state(&door, "available").await, 0);
    }
}

#[test_support::test]
async fn the_manifest_declares_the_strength(door: Door) {
    let answer = door.send("GET", "/ojs/manifest", &[], Vec::new()).await.body.unwrap();
    assert_eq!(answer["capabilities"]["unique_jobs"]["strength"], "strong");
    assert_eq!(answer["conformance_level"], 4);
}
