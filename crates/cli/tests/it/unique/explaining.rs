//! `unique explain`, `key` and policies.

use test_support::prelude::*;

use super::insert;
use crate::support::{Migrated, directory};

#[test_support::test(schema("jobs"))]
async fn explain_says_what_an_insert_would_do_and_why(keys: Migrated) {
    let policy = r#"{"keys": ["args", "queue"], "args_keys": ["user_id"]}"#;
    let line = "unique explain email.send --queue notifications --args";
    let line = (line, [r#"{"user_id": 42, "n": 1}"#, "--policy", policy]);
    let key = "71f9344b82e66297a49775bbe27752297922842b675330641ebe3ff4fea46c1f";
    let free = keys.json(line, 0);
    assert_eq!((&free["unique_key"], &free["outcome"]), (&json!(key), &json!("inserted")));
    assert_eq!(free["canonical"], r#"{"args":{"user_id":42},"queue":"notifications","type":"email.send"}"#);
    let holder = format!(
        "SELECT id::text FROM jobs.insert_job('email.send', '{{\"user_id\": 42}}', queue => 'notifications',
            unique_policy => '{policy}')"
    );
    let holder = keys.texts(&holder).await.remove(0);
    let taken = keys.json(line, 1);
    assert_eq!((&taken["holder"]["holder"], &taken["outcome"]), (&json!(holder), &json!("duplicate")));
    let text = keys.text(line, 1);
    let claims = "| while pending, scheduled, available, running, retryable";
    for part in [key, &holder, "would be a duplicate", claims, "when it is completed, cancelled or discarded"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The policy and the args from files, and a raw key.
    let files = directory();
    let (policy_file, args_file) = (files.path().join("policy.json"), files.path().join("args.json"));
    std::fs::write(&policy_file, policy).unwrap();
    std::fs::write(&args_file, r#"{"user_id": 42}"#).unwrap();
    let (policy_file, args_file) = (policy_file.to_str().unwrap(), format!("@{}", args_file.display()));
    let line = "unique explain email.send --queue notifications --args";
    let by_file = keys.json((line, [&args_file, "--policy", policy_file]), 1);
    assert_eq!((&by_file["unique_key"], &by_file["canonical"]), (&taken["unique_key"], &taken["canonical"]));
    keys.json("unique explain a --key free", 0);
}

#[test_support::test(schema("jobs"))]
async fn explain_says_what_becomes_of_the_holder(keys: Migrated) {
    let holder = "SELECT id::text FROM jobs.insert_job(
        'a', '{\"i\": [1]}', scheduled_at => '2999-01-01', unique_policy => '{\"key\": \"k\", \"scope\": \"queued\"}')";
    let holder = keys.texts(holder).await.remove(0);
    for (answer, code, outcome, text) in [
        (r#""on_conflict": "ignore""#, 1, "duplicate", "would be a duplicate"),
        (r#""on_conflict": "reject""#, 1, "rejected", "would be rejected"),
        (r#""on_conflict": "replace""#, 0, "inserted", "would be inserted, and replace the holder"),
        (r#""on_conflict": "run_again""#, 1, "covered", "the holder starts after the insert has committed"),
        (r#""update": "append""#, 1, "updated", "would update the holder"),
        (r#""update": "append", "max_items": 1"#, 0, "inserted", "the holder is full, and gives up its claim"),
    ] {
        let policy = format!(r#"{{"key": "k", "scope": "queued", {answer}}}"#);
        let line = ("unique explain a --args", [r#"{"i": [2]}"#, "--policy", &policy]);
        let (said, json) = (keys.text(line, code), keys.json(line, code));
        assert_eq!(json["outcome"], json!(outcome), "{answer}: {said}");
        assert!(said.contains(text) && said.contains(&holder), "{answer}: {said}");
        let replaced = if answer.contains("replace") { json!(holder) } else { Value::Null };
        assert_eq!(json["replaced"], replaced, "{answer}");
        let updated = outcome == "updated";
        assert_eq!(json["new_args"], if updated { json!({"i": [1, 2]}) } else { Value::Null }, "{answer}");
        assert_eq!(said.contains(r#"its new args     | {"i": [1, 2]}"#), updated, "{said}");
        assert_eq!(said.contains("its new due time | 2999-01-01T00:00:00Z"), updated, "{said}");
    }
    let append = r#"{"key": "k", "update": "append"}"#;
    let said = keys.refused(("unique explain a --args", [r#"{"i": 2}"#, "--policy", append]));
    assert!(said.contains("append needs an array in both jobs: \"i\""), "{said}");
    let running = insert(&keys, "a", "{}", r#"{"key": "r"}"#).await;
    keys.set(&running, "state = 'running', worker = gen_random_uuid()").await;
    let said = keys.text(("unique explain a --policy", [r#"{"key": "r", "on_conflict": "preempt"}"#]), 0);
    assert!(said.contains("the holder, which runs and is cancelled"), "{said}");
}

#[test_support::test(schema("jobs"))]
async fn an_empty_key_is_refused_by_every_command(keys: Migrated) {
    for line in ["unique show", "unique release --yes", "unique explain a --key"] {
        let stderr = keys.refused((line, [""]));
        assert!(stderr.contains("a unique key is not empty"), "{line}: {stderr}");
    }
    assert!(keys.refused(("unique show", "k".repeat(513))).contains("at most 512 bytes, and this has 513"));
}

#[test_support::test(schema("jobs"))]
async fn key_and_the_policy_of_a_key_claim_alike(keys: Migrated) {
    let claimed =
        "SELECT concat_ws(' ', unique_key, unique_states, until_start, unique_until) FROM jobs.job ORDER BY id";
    for (option, value) in [("--key", "a"), ("--policy", r#"{"key": "b"}"#)] {
        keys.insert(["x", option, value]);
    }
    let claims = keys.texts(claimed).await;
    assert_eq!(claims[0].strip_prefix("a "), claims[1].strip_prefix("b "), "{claims:?}");
    for key in ["a", "b"] {
        let by_key = keys.json(("unique explain x --key", key), 1);
        let by_policy = keys.json(format!(r#"unique explain x --policy {{"key":"{key}"}}"#), 1);
        assert_eq!(by_key["unique_key"], by_policy["unique_key"]);
        assert_eq!(by_key["holder"]["claims_in"], by_policy["holder"]["claims_in"]);
    }
}

#[test_support::test(schema("jobs"))]
async fn errors_in_a_policy_or_json_are_named(keys: Migrated) {
    insert(&keys, "a", "{}", r#"{"key": "k"}"#).await;
    keys.refuses(&[
        (r#"unique explain a --policy {"keys":["dance"]}"#, "must be one of type, queue, args, meta"),
        (r#"unique explain a --policy {"keys":[}"#, "--policy is not JSON"),
        ("unique explain a --policy /no/such/file", "cannot read --policy from /no/such/file"),
        (
            "unique explain a --args { --key k",
            "--args is not JSON: EOF while parsing an object at line 1 column 1: \"{\"\n",
        ),
        ("unique explain a --meta [] --key k", "--meta is not an object: []"),
        ("unique release k", "--yes"),
        ("unique backfill --kind a --policy {} --batch 0", "batch"),
        ("unique backfill --kind a --policy {} --on-collision cancel", "needs confirmation"),
    ]);
}
