//! `job insert`.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use test_support::prelude::*;

use crate::support::{Migrated, directory, refused};

#[test_support::test]
async fn insert_tells_a_duplicate_from_a_new_job(jobs: Migrated) {
    let line =
        "job insert email.send --queue emails --priority -3 --max-attempts 4 --in 1h --meta {\"tenant\":7} --key it's";
    let first = jobs.json((line, &["--args", r#"{"n": 12345678901234567890, "a": "é\u0001"}"#]), 0);
    let job = &first["job"];
    let id = job["id"].as_str().unwrap();
    assert_eq!(
        (&first["duplicate"], &first["duplicate_of"], &first["replaced"]),
        (&json!(false), &Value::Null, &Value::Null)
    );
    for (name, value) in [
        ("kind", json!("email.send")),
        ("queue", json!("emails")),
        ("state", json!("scheduled")),
        ("priority", json!(-3)),
        ("max_attempts", json!(4)),
        ("meta", json!({"tenant": 7})),
        ("args", json!({"n": 12_345_678_901_234_567_890_u64, "a": "é\u{1}"})),
        ("unique_key", json!("it's")),
    ] {
        assert_eq!(job[name], value, "{name}");
    }
    let again = jobs.json((line, &[]), 0);
    assert_eq!((&again["duplicate"], &again["job"]["id"]), (&json!(true), &json!(id)));
    assert_eq!(again["duplicate_of"]["holder"], json!(id));
    let text = jobs.text(line, 0);
    assert!(text.starts_with(&format!("duplicate, nothing was inserted: job {id} (scheduled, ")), "{text}");
    assert!(text.contains("it is free when it is completed, cancelled or discarded"), "{text}");

    // A policy decides what a duplicate does.
    let by_kind = |policy: &'static str| ("job insert report.build --policy", [policy]);
    let text = jobs.text(by_kind("{}"), 0);
    assert!(text.starts_with("inserted ") && text.ends_with(" (available)\n"), "{text}");
    let text = jobs.text(by_kind(r#"{"on_conflict": "reject"}"#), 1);
    assert!(text.starts_with("rejected, nothing was inserted: job "), "{text}");
    let rejected = jobs.json(by_kind(r#"{"on_conflict": "reject"}"#), 1);
    assert_eq!(rejected["rejected"]["holder_state"], json!("available"));
    let replaced = jobs.json(by_kind(r#"{"on_conflict": "replace"}"#), 0);
    assert_eq!((&replaced["duplicate"], &replaced["replaced"]), (&json!(false), &rejected["rejected"]["holder"]));
    assert_eq!(jobs.texts("SELECT count(*)::text FROM uniqueue.job").await, ["3"]);

    // An id that is sent again is recognised.
    let id = "019abc12-3456-7def-8a12-3456789abcde";
    for _ in 0..2 {
        let text = jobs.text(format!("job insert a --pending --id {id}"), 0);
        assert_eq!(text, format!("inserted {id} (pending)\n"), "the same answer");
    }
    assert_eq!(jobs.texts("SELECT count(*)::text FROM uniqueue.job WHERE kind = 'a'").await, ["1"]);
}

#[test_support::test]
async fn insert_says_what_became_of_a_duplicate(jobs: Migrated) {
    let policy = |answer: &str| format!(r#"{{"key": "k", "scope": "queued", {answer}}}"#);
    let holder = jobs.insert("index --in 1h --args {\"i\":[1]} --policy {\"key\":\"k\",\"scope\":\"queued\"}");
    let append = policy(r#""update": "append""#);
    let text = jobs.text(("job insert index --args", [r#"{"i": [2]}"#, "--policy", &append]), 0);
    assert!(text.starts_with(&format!("updated, the holder was changed: job {holder} (scheduled, ")), "{text}");
    let updated = jobs.json(("job insert index --args", [r#"{"i": [3]}"#, "--policy", &append]), 0);
    assert_eq!(
        (&updated["duplicate"], &updated["updated"], &updated["covered"]),
        (&json!(true), &json!(true), &json!(false))
    );
    assert_eq!((&updated["job"]["id"], &updated["job"]["args"]), (&json!(holder), &json!({"i": [1, 2, 3]})));

    let run_again = policy(r#""on_conflict": "run_again""#);
    let again = ("job insert index --policy", [run_again.as_str()]);
    let text = jobs.text(again, 0);
    assert!(
        text.starts_with(&format!("covered, the holder starts after this insert: job {holder} (scheduled, ")),
        "{text}"
    );
    let covered = jobs.json(again, 0);
    assert_eq!((&covered["updated"], &covered["covered"]), (&json!(false), &json!(true)));
    // A holder that runs does not cover the insert.
    jobs.set(&holder, "state = 'running', worker = gen_random_uuid(), attempt = 1, attempted_at = now()").await;
    let text = jobs.text(again, 0);
    assert!(text.starts_with("inserted ") && text.ends_with(" (available)\n"), "{text}");

    let running = jobs.insert("index --key r");
    jobs.set(&running, "state = 'running', worker = gen_random_uuid(), attempt = 1, attempted_at = now()").await;
    let preempt = r#"{"key": "r", "on_conflict": "preempt"}"#;
    let text = jobs.text(("job insert index --policy", &[preempt]), 0);
    assert!(text.ends_with(&format!(" (available, replacing {running})\n")), "{text}");
    assert_eq!(jobs.state(&running).await, "cancelled");
}

#[test_support::test]
async fn insert_takes_expiries_and_parents(jobs: Migrated) {
    jobs.execute("SELECT uniqueue.register_kind('reminder', expires_in => '1 hour')").await;
    let insert = |line: &str| jobs.json(line, 0)["job"].clone();
    assert_ne!(insert("job insert reminder")["expires_at"], Value::Null);
    assert_eq!(insert("job insert reminder --expires-in 0")["expires_at"], Value::Null);
    assert_ne!(insert("job insert other --expires-in 15m")["expires_at"], Value::Null);
    let until = insert("job insert other --expires-at 2999-01-01T00:00:00Z");
    assert_eq!(until["expires_at"], json!("2999-01-01T00:00:00Z"));

    let (first, second) = (jobs.insert("a"), jobs.insert("b"));
    let child = insert(&format!("job insert child --after {first},{second}"));
    assert_eq!(child["state"], json!("pending"));
    insert(&format!("job insert child --after-final {first} --after-failed {second}"));
    let edges = "SELECT string_agg(condition, ' ' ORDER BY condition, parent) FROM uniqueue.job_parent";
    assert_eq!(jobs.texts(edges).await, ["completed completed failed final"]);
    let missing = "job insert child --after 00000000-0000-7000-8000-000000000000";
    assert!(jobs.refused(missing).contains("00000000-0000-7000-8000-000000000000"));
}

#[test_support::test]
async fn insert_puts_a_job_in_the_group_of_a_policy(jobs: Migrated) {
    let by_customer = r#"{"keys": ["args"], "args_keys": ["customer"]}"#;
    let sync = |customer: u32, more: &[&str]| {
        let args = format!(r#"{{"customer": {customer}, "n": {}}}"#, more.len());
        let more = [&["--args", &args, "--group-policy", by_customer], more].concat();
        jobs.json(("job insert sync", &more[..]), 0)["job"].clone()
    };
    let first = sync(1, &["--group-limit", "3"]);
    assert_eq!(
        (&first["group_limit"], &first["in_order"], &first["unique_key"]),
        (&json!(3), &json!(false), &Value::Null)
    );
    let second = sync(1, &["--in-order"]);
    assert_eq!((&second["group_key"], &second["in_order"]), (&first["group_key"], &json!(true)));
    assert_ne!(sync(2, &[])["group_key"], first["group_key"]);

    let one = |args: &str| {
        let policy = r#"{"keys": ["args"]}"#;
        let more = ["--args", args, "--policy", policy, "--one-at-a-time"];
        jobs.json(("job insert rebuild", &more), 0)
    };
    let inserted = one(r#"{"index": 1}"#);
    let job = &inserted["job"];
    // The text whose hash is the unique key.
    let group = r#"{"args":{"index":1},"queue":"default","type":"rebuild"}"#;
    assert_eq!((&job["group_key"], &job["group_limit"]), (&json!(group), &json!(1)));
    let again = one(r#"{"index": 1}"#);
    assert_eq!((&again["covered"], &again["job"]["id"]), (&json!(true), &job["id"]));
    assert_eq!(one(r#"{"index": 2}"#)["duplicate"], json!(false));
}

#[test_support::test]
async fn a_list_in_a_pipe_is_short_whatever_the_args(jobs: Migrated) {
    let huge = "SELECT uniqueue.new_job_id(), 'a', jsonb_build_object('text', repeat('x', 5000000))";
    jobs.execute(&format!("INSERT INTO uniqueue.job (id, kind, args) {huge}")).await;
    let text = jobs.text("job list", 0);
    assert!(text.len() < 2_000 && text.contains("xxx…\n"), "{}", text.len());
    // JSON has all of it.
    assert!(jobs.text("job list --json", 0).len() > 5_000_000);
}

#[test_support::test]
async fn args_come_from_a_file_or_from_standard_input_as_well(jobs: Migrated) {
    let scratch = directory();
    let file = scratch.path().join("args.json");
    std::fs::write(&file, "{\"from\": \"file\"}\n").unwrap();
    let from_file = jobs.json(format!("job insert a --args @{}", file.display()), 0);
    assert_eq!(from_file["job"]["args"], json!({"from": "file"}));

    let mut command = jobs.command("job insert a --json --args -");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"from\": \"stdin\"}").unwrap();
    let output = child.wait_with_output().unwrap();
    let inserted: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(inserted["job"]["args"], json!({"from": "stdin"}));

    jobs.refuses(&[
        ("job insert a --args {", "error: --args is not JSON: EOF"),
        ("job insert a --args @/no/such", "error: cannot read --args from /no/such: No such file"),
        ("job insert a --meta [1]", "error: --meta is not an object: [1]\nhint: "),
        ("job insert a --policy {\"keys\":[\"x\"]}", "error: invalid unique policy: keys: "),
        ("job insert a --policy nothing", "error: cannot read --policy from nothing: "),
        ("job insert a --key k --policy {}", "error: the argument '--key <KEY>' cannot be used with"),
        ("job insert a --in 1h --at now", "error: the argument '--in <DURATION>' cannot be used with"),
        (
            "job insert a --in soon",
            "error: invalid value 'soon' for '--in <DURATION>': expected a length of time such as",
        ),
        ("job insert a --at soon", "error: invalid value 'soon' for '--at <TIME>': expected a time such as"),
        ("job insert a --id 7", "error: invalid value '7' for '--id <ID>': invalid job id"),
        ("job insert a --priority 40000", "error: invalid value '40000' for '--priority <N>'"),
        ("job insert a --max-attempts 0", "error: invalid max_attempts: "),
    ]);
    let stderr = refused(jobs.command("job list --queue").arg(OsStr::from_bytes(b"\xff")));
    assert!(stderr.starts_with("error: invalid UTF-8"), "{stderr}");
    for (kind, said) in
        [("", "invalid kind: must not be empty"), ("a\nb", "invalid kind: must not hold control characters")]
    {
        let stderr = jobs.refused(("job insert", &[kind]));
        assert!(stderr.contains(said), "{kind:?}: {stderr}");
    }
}
