//! `uniqueue job insert` refuses what can never work, and inserts nothing.

use std::process::Command;

use crate::support::{migrated, texts, uniqueue};

fn insert(url: &str, words: &[&str]) -> Command {
    let mut command = uniqueue();
    command.args(["job", "insert", "a"]).args(words).env("DATABASE_URL", url);
    command
}

#[tokio::test]
async fn what_can_never_work_is_refused_with_its_reason() {
    let url = migrated("uniqueue").await;
    let append = r#"{"key": "k", "scope": "queued", "update": "append"}"#;
    let push = r#"{"key": "p", "scope": "queued", "max_delay": "PT1M"}"#;
    let own = r#"{"keys": ["args"], "args_keys": ["n"], "scope": "queued", "update": "append"}"#;
    let running = r#"{"key": "r", "scope": "active", "on_conflict": "run_again"}"#;
    // It is not due, so no update finds it overdue on a busy machine.
    let holder = insert(&url, &["--args", r#"{"n": 1}"#, "--policy", append, "--in", "1h"]).output().unwrap();
    assert!(holder.status.success(), "{holder:?}");
    let long = "x".repeat(513);
    let window = r#"{"keys": ["args"], "window": "PT1H"}"#;
    let cases: [(&[&str], &str); 16] = [
        (&["--policy", push, "--in", "1m"], "max_delay: must be longer than the delay"),
        (&["--args", r#"{"n": 2}"#, "--policy", append], "append needs an array in both jobs: \"n\""),
        (
            &["--args", r#"{"n": [1]}"#, "--policy", own],
            "append would change a member that the key is made from: \"n\"",
        ),
        (&["--policy", running], "on_conflict: run_again needs a scope without running"),
        (&["--group", "g", "--group-limit", "0"], "invalid group_limit: must be 1 to 32767: 0"),
        (
            &["--group", "g", "--group-limit", "2", "--in-order"],
            "invalid group_limit: must be 1 for a job that is in_order: 2",
        ),
        (&["--group", ""], "must be 1 to 512 bytes: 0"),
        (&["--group", &long], "must be 1 to 512 bytes: 513"),
        (&["--group-policy", window], "invalid unique policy: window: a group has none"),
        (
            &["--group-policy", r#"{"keys": ["tenant"]}"#],
            "invalid unique policy: keys: must be one of type, queue, args, meta: \"tenant\"",
        ),
        (&["--group-policy", "{"], "--group-policy is not JSON"),
        (&["--group", "g", "--group-policy", "{}"], "the argument '--group <KEY>' cannot be used with"),
        (&["--group-limit", "2"], "the following required arguments were not provided"),
        (&["--policy", window, "--one-at-a-time"], "invalid unique policy: window: a group has none"),
        (&["--one-at-a-time"], "the following required arguments were not provided:\n  --policy"),
        (&["--policy", "{}", "--one-at-a-time", "--group", "g"], "the argument '--one-at-a-time' cannot be used with"),
    ];
    for (words, problem) in cases {
        let output = insert(&url, words).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{words:?}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(problem), "{words:?}: {stderr}");
    }
    assert_eq!(texts(&url, "SELECT unique_key || args::text FROM uniqueue.job").await, [r#"k{"n": 1}"#]);
}
