//! Wrong use is reported on standard error, with a remedy, and by exit code 2.

use test_support::prelude::*;

use crate::support::{self, Migrated, database, run, uniqueue};

fn refused(arguments: &[&str]) -> String {
    support::refused(uniqueue().args(arguments))
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

#[test_support::test(unmigrated("uniqueue"))]
async fn role_that_may_not_create_is_told_so(database: Migrated) {
    let (_, visitor) = database.role("visitor").await;
    let stderr = visitor.refused("demo /etc/hostname");
    assert!(stderr.starts_with("error: cannot migrate schema uniqueue: "), "{stderr}");
    assert!(stderr.contains("permission denied") && stderr.contains("\nhint: let a role"), "{stderr}");
}

#[test_support::test]
async fn groups_that_can_never_work_are_refused_with_their_reason(jobs: Migrated) {
    jobs.refuses(&[
        ("job insert a --group g --group-limit 0", "invalid group_limit: must be 1 to 32767: 0"),
        (
            "job insert a --group g --group-limit 2 --in-order",
            "invalid group_limit: must be 1 for a job that is in_order: 2",
        ),
        (r#"job insert a --group-policy {"window":"PT1H"}"#, "invalid unique policy: window: a group has none"),
        (
            r#"job insert a --group-policy {"keys":["tenant"]}"#,
            "invalid unique policy: keys: must be one of type, queue, args, meta: \"tenant\"",
        ),
        ("job insert a --group-policy {", "--group-policy is not JSON"),
        ("job insert a --group g --group-policy {}", "the argument '--group <KEY>' cannot be used with"),
        ("job insert a --group-limit 2", "the following required arguments were not provided"),
        (
            r#"job insert a --policy {"keys":["args"],"window":"PT1H"} --one-at-a-time"#,
            "invalid unique policy: window: a group has none",
        ),
        ("job insert a --one-at-a-time", "the following required arguments were not provided:\n  --policy"),
        ("job insert a --policy {} --one-at-a-time --group g", "the argument '--one-at-a-time' cannot be used with"),
    ]);
    for (group, bytes) in [(String::new(), 0), ("x".repeat(513), 513)] {
        let stderr = jobs.refused(("job insert a --group", [group.as_str()]));
        assert!(stderr.contains(&format!("must be 1 to 512 bytes: {bytes}")), "{stderr}");
    }
    assert_eq!(jobs.texts("SELECT id::text FROM uniqueue.job").await, [""; 0]);
}
