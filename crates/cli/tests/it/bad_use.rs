//! Wrong use is reported on standard error, with a remedy, and by exit code 2.

use std::process::Command;

use test_support::prelude::*;

use crate::support::{database, migrated, run, texts, uniqueue};

fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    assert!(stderr.starts_with("error: "), "{arguments:?}: {stderr}");
    stderr
}

#[test]
fn command_line_is_checked() {
    assert_eq!(run(&[]).status.code(), Some(2));
    refused(&["dance"]);
    refused(&["demo", "--dance"]);
    refused(&["demo", "--all", "--exclude", "x"]);
    refused(&["db", "start", "--port", "0"]);
    let stderr = refused(&["demo", "--schema", "no spaces"]);
    assert!(stderr.contains("must be a letter or underscore, then letters, digits, _ or -"), "{stderr}");
}

#[test]
fn what_is_not_there_is_an_error_with_a_hint() {
    for (arguments, expected) in [
        (&["demo", "/no/such\n\u{1b}path"][..], "error: cannot read PATH: /no/such%0A%1Bpath: No such file"),
        (&["demo", "/dev/null"], "error: PATH is neither a directory nor a regular file: /dev/null\nhint: "),
        (&["demo", "--schema", "uniqueue_demo"], "error: the demo keeps its own tables in this schema: uniqueue_demo"),
        (&["migrate"], "error: no database given\nhint: "),
        (&["migrate", "--database-url", ""], "error: no database given\nhint: "),
        (&["migrate", "--database-url", "mysql://x"], "error: invalid database URL: it must start with postgres://"),
    ] {
        let stderr = refused(arguments);
        assert!(stderr.starts_with(expected) && stderr.contains("\nhint: "), "{stderr}");
    }
}

#[test]
fn database_that_is_down_is_told_at_once() {
    const EXPECTED: &str = "error: cannot connect to database \"app\" at 127.0.0.1:1 as user \"secret\": Connection refused (os error 111)\n";
    let begun_at = Instant::now();
    let stderr = refused(&["migrate", "--database-url", "postgres://secret:word@127.0.0.1:1/app"]);
    assert!(begun_at.elapsed() < Duration::from_secs(5), "{stderr}");
    assert!(stderr.starts_with(EXPECTED) && stderr.contains("\nhint: is PostgreSQL running"), "{stderr}");
    assert!(!stderr.contains("word"), "{stderr}");
}

#[tokio::test]
async fn tls_that_cannot_be_had_is_told_so() {
    let url = format!("{}&sslmode=require", database().await);
    let stderr = refused(&["migrate", "--database-url", &url]);
    assert!(
        stderr.starts_with("error: cannot connect to database ") && stderr.contains(": cannot encrypt: "),
        "{stderr}"
    );
    assert!(stderr.contains("\nhint: "), "{stderr}");
}

#[tokio::test]
async fn role_that_may_not_create_is_told_so() {
    let url = database().await;
    crate::support::execute(&url, "CREATE ROLE visitor LOGIN").await;
    let visitor = url.replace("postgres@", "visitor@");
    let output = uniqueue().args(["demo", "/etc/hostname", "--database-url", &visitor]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with("error: cannot migrate schema uniqueue: "), "{stderr}");
    assert!(stderr.contains("permission denied") && stderr.contains("\nhint: let a role"), "{stderr}");
}

#[tokio::test]
async fn what_the_server_says_is_told_without_the_line_of_its_source() {
    let url = migrated("uniqueue").await;
    crate::support::execute(&url, "ALTER TABLE uniqueue.job RENAME TO other").await;
    let stderr = refused(&["job", "list", "--database-url", &url]);
    let said =
        "error: error returned from database: relation \"uniqueue.job\" does not exist\nhint: is the schema migrated?";
    assert!(stderr.starts_with(said), "{stderr}");
}

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
