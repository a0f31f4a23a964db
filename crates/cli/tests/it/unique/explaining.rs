//! `unique explain`, `key` and policies.

use test_support::prelude::*;

use super::{insert, json_of, queue, refused, told, unique};
use crate::support::{directory, execute, texts, uniqueue};

#[tokio::test]
async fn explain_says_what_an_insert_would_do_and_why() {
    let url = queue().await;
    let policy = r#"{"keys": ["args", "queue"], "args_keys": ["user_id"]}"#;
    let line = ["explain", "email.send", "--args", r#"{"user_id": 42, "n": 1}"#, "--queue", "notifications"];
    let line = [&line[..], &["--policy", policy]].concat();
    let key = "71f9344b82e66297a49775bbe27752297922842b675330641ebe3ff4fea46c1f";
    let (code, free) = json_of(&url, &line);
    assert_eq!((code, &free["unique_key"], &free["outcome"]), (0, &json!(key), &json!("inserted")));
    assert_eq!(free["canonical"], r#"{"args":{"user_id":42},"queue":"notifications","type":"email.send"}"#);
    let holder = format!(
        "SELECT id::text FROM jobs.insert_job('email.send', '{{\"user_id\": 42}}', queue => 'notifications',
            unique_policy => '{policy}')"
    );
    let holder = texts(&url, &holder).await.remove(0);
    let (code, taken) = json_of(&url, &line);
    assert_eq!((code, &taken["holder"]["holder"], &taken["outcome"]), (1, &json!(holder), &json!("duplicate")));
    let (code, text) = told(&url, &line);
    assert_eq!(code, 1);
    let claims = "| while pending, scheduled, available, running, retryable";
    for part in [key, &holder, "would be a duplicate", claims, "when it is completed, cancelled or discarded"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The policy and the args from files, and a raw key.
    let files = directory();
    let (policy_file, args_file) = (files.path().join("policy.json"), files.path().join("args.json"));
    std::fs::write(&policy_file, policy).unwrap();
    std::fs::write(&args_file, r#"{"user_id": 42}"#).unwrap();
    let args_file = format!("@{}", args_file.display());
    let by_file = ["explain", "email.send", "--args", &args_file, "--queue", "notifications", "--policy"];
    let by_file = [&by_file[..], &[policy_file.to_str().unwrap()]].concat();
    let (code, by_file) = json_of(&url, &by_file);
    assert_eq!((code, &by_file["unique_key"], &by_file["canonical"]), (1, &taken["unique_key"], &taken["canonical"]));
    assert_eq!(json_of(&url, &["explain", "a", "--key", "free"]).0, 0);
}

#[tokio::test]
async fn explain_says_what_becomes_of_the_holder() {
    let url = queue().await;
    let holder = "SELECT id::text FROM jobs.insert_job(
        'a', '{\"i\": [1]}', scheduled_at => '2999-01-01', unique_policy => '{\"key\": \"k\", \"scope\": \"queued\"}')";
    let holder = texts(&url, holder).await.remove(0);
    let explain = |answer: &str| {
        let policy = format!(r#"{{"key": "k", "scope": "queued", {answer}}}"#);
        let line = ["explain", "a", "--args", r#"{"i": [2]}"#, "--policy", &policy];
        (told(&url, &line), json_of(&url, &line).1)
    };
    for (answer, code, outcome, text) in [
        (r#""on_conflict": "ignore""#, 1, "duplicate", "would be a duplicate"),
        (r#""on_conflict": "reject""#, 1, "rejected", "would be rejected"),
        (r#""on_conflict": "replace""#, 0, "inserted", "would be inserted, and replace the holder"),
        (r#""on_conflict": "run_again""#, 1, "covered", "the holder starts after the insert has committed"),
        (r#""update": "append""#, 1, "updated", "would update the holder"),
        (r#""update": "append", "max_items": 1"#, 0, "inserted", "the holder is full, and gives up its claim"),
    ] {
        let ((exit, said), json) = explain(answer);
        assert_eq!((exit, &json["outcome"]), (code, &json!(outcome)), "{answer}: {said}");
        assert!(said.contains(text) && said.contains(&holder), "{answer}: {said}");
        let replaced = if answer.contains("replace") { json!(holder) } else { Value::Null };
        assert_eq!(json["replaced"], replaced, "{answer}");
        let updated = outcome == "updated";
        assert_eq!(json["new_args"], if updated { json!({"i": [1, 2]}) } else { Value::Null }, "{answer}");
        assert_eq!(said.contains(r#"its new args     | {"i": [1, 2]}"#), updated, "{said}");
        assert_eq!(said.contains("its new due time | 2999-01-01T00:00:00Z"), updated, "{said}");
    }
    let append = r#"{"key": "k", "update": "append"}"#;
    let output = unique(&url, &["explain", "a", "--args", r#"{"i": 2}"#, "--policy", append]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("append needs an array in both jobs: \"i\""), "{said}");
    let running = insert(&url, "a", "{}", r#"{"key": "r"}"#).await;
    let start = format!("UPDATE jobs.job SET state = 'running', worker = gen_random_uuid() WHERE id = '{running}'");
    execute(&url, &start).await;
    let (code, said) = told(&url, &["explain", "a", "--policy", r#"{"key": "r", "on_conflict": "preempt"}"#]);
    assert!(code == 0 && said.contains("the holder, which runs and is cancelled"), "{said}");
}

#[tokio::test]
async fn an_empty_key_is_refused_by_every_command() {
    let url = queue().await;
    for line in [&["show", ""][..], &["release", "", "--yes"], &["explain", "a", "--key", ""]] {
        let output = unique(&url, line).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line:?}: {stderr}");
        assert!(stderr.contains("a unique key is not empty"), "{line:?}: {stderr}");
    }
    let long = "k".repeat(513);
    let output = unique(&url, &["show", &long]).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("at most 512 bytes, and this has 513"));
}

#[tokio::test]
async fn key_and_the_policy_of_a_key_claim_alike() {
    let url = queue().await;
    let claimed =
        "SELECT concat_ws(' ', unique_key, unique_states, until_start, unique_until) FROM jobs.job ORDER BY id";
    for (option, value) in [("--key", "a"), ("--policy", r#"{"key": "b"}"#)] {
        let mut insert = uniqueue();
        insert.args(["job", "insert", "x", "--schema", "jobs", option, value]).env("DATABASE_URL", &url);
        assert_eq!(insert.output().unwrap().status.code(), Some(0), "{option}");
    }
    let claims = texts(&url, claimed).await;
    assert_eq!(claims[0].strip_prefix("a "), claims[1].strip_prefix("b "), "{claims:?}");
    for key in ["a", "b"] {
        let by_key = json_of(&url, &["explain", "x", "--key", key]);
        let by_policy = json_of(&url, &["explain", "x", "--policy", &format!(r#"{{"key": "{key}"}}"#)]);
        assert_eq!((by_key.0, &by_key.1["unique_key"]), (1, &by_policy.1["unique_key"]));
        assert_eq!(by_key.1["holder"]["claims_in"], by_policy.1["holder"]["claims_in"]);
    }
}

#[tokio::test]
async fn errors_in_a_policy_or_json_are_named() {
    let url = queue().await;
    for (arguments, expected) in [
        (&["explain", "a", "--policy", r#"{"keys": ["dance"]}"#][..], "must be one of type, queue, args, meta"),
        (&["explain", "a", "--policy", r#"{"keys": [}"#], "--policy is not JSON"),
        (&["explain", "a", "--policy", "/no/such/file"], "cannot read --policy from /no/such/file"),
        (
            &["explain", "a", "--args", "{", "--key", "k"],
            "--args is not JSON: EOF while parsing an object at line 1 column 1: \"{\"\n",
        ),
        (&["explain", "a", "--meta", "[]", "--key", "k"], "--meta is not an object: []"),
        (&["release", "k"], "error: "),
        (&["backfill", "--kind", "a", "--policy", "{}", "--batch", "0"], "batch"),
        (&["backfill", "--kind", "a", "--policy", "{}", "--on-collision", "cancel"], "needs confirmation"),
    ] {
        if arguments[0] == "release" {
            insert(&url, "a", "{}", r#"{"key": "k"}"#).await;
        }
        let output = unique(&url, arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(expected), "{arguments:?}: {stderr}");
    }
    assert!(refused(&url, &["release", "k"]).contains("--yes"));
}
