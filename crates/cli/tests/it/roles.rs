//! The roles of deploy/roles.sql, at the command: it needs no more than is listed there.

use std::process::Output;

use crate::support::{database, execute, uniqueue};

const GRANTS: &str = include_str!("../../../../deploy/roles.sql");

/// A migrated database, and a URL for a role with the grants that the file lists for it.
async fn role(name: &str) -> (String, String) {
    let url = database().await;
    let migrated = uniqueue().args(["migrate", "--database-url", &url]).output().unwrap();
    assert!(migrated.status.success(), "{migrated:?}");
    // Roles belong to the whole server.
    let role = format!("{name}_{}", url.rsplit_once("/test_").and_then(|(_, rest)| rest.split_once('?')).unwrap().0);
    execute(&url, &format!("CREATE ROLE {role} LOGIN")).await;
    let to = format!(" TO {name};");
    let grants: Vec<_> = GRANTS.lines().filter(|line| line.starts_with("GRANT ") && line.ends_with(&to)).collect();
    assert!(grants.len() > 3, "the file lists grants for {name}");
    for grant in grants {
        execute(&url, &grant.replace(&to, &format!(" TO {role}"))).await;
    }
    let jobs = "INSERT INTO uniqueue.job (id, kind, state, finalized_at)
        SELECT uniqueue.new_job_id(), 'a', s::uniqueue.job_state, CASE WHEN s = 'discarded' THEN now() END
        FROM unnest(ARRAY['available', 'discarded']) AS s;
        INSERT INTO uniqueue.periodic (name, kind, schedule) VALUES ('daily', 'a', 'P1D')";
    execute(&url, jobs).await;
    let own = url.replace("postgres@", &format!("{role}@"));
    (url, own)
}

fn run(url: &str, line: &str) -> Output {
    uniqueue().args(line.split(' ')).env("DATABASE_URL", url).output().unwrap()
}

const LOOKS: [&str; 6] =
    ["migrate --status", "stats", "queue list", "job list", "job list --state discarded --json", "periodic list"];

#[tokio::test]
async fn an_operator_can_use_the_command() {
    let (_, url) = role("operator").await;
    let changes = [
        "job cancel --state available --yes",
        "job retry --state cancelled --yes",
        "job reschedule --all --in 1h --yes",
        "job priority 3 --all --yes",
        "job delete --state discarded --yes",
        "queue pause emails",
        "queue resume emails",
        "queue limit emails 3",
        "queue retention emails --completed 1h",
        "queue remove emails",
        "periodic pause daily",
        "periodic resume daily",
        "periodic remove daily",
    ];
    for line in LOOKS.into_iter().chain(changes) {
        let output = run(&url, line);
        assert!(output.status.success(), "{line}: {output:?}");
    }
}

#[tokio::test]
async fn an_inserter_can_insert_with_the_command() {
    let (admin, url) = role("inserter").await;
    let policy = |policy: &str| format!(r#"job insert b --policy {{"key":"k",{policy}}}"#);
    for line in [
        "job insert b --queue emails --at +1h --id 019abc12-3456-7def-8a12-3456789abcde".to_owned(),
        "job insert b --key k --in 1h".to_owned(),
        policy(r#""scope":"queued""#),
        policy(r#""scope":"queued","on_conflict":"run_again""#),
        policy(r#""scope":"queued","update":"latest""#),
        policy(r#""scope":"queued","on_conflict":"replace""#),
    ] {
        let output = run(&url, &line);
        assert!(output.status.success(), "{line}: {output:?}");
    }
    // A wait also reads whether the queue keeps results. No runner works the job.
    execute(&admin, "GRANT SELECT ON uniqueue.queue TO PUBLIC").await;
    let output = run(&url, "job insert b --wait 1ms");
    assert_eq!((output.status.code(), output.stderr.len()), (Some(1), 0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("is not final yet"), "{output:?}");
}

#[tokio::test]
async fn a_reader_can_look_with_the_command_and_change_nothing() {
    let (_, url) = role("reader").await;
    for line in LOOKS {
        let output = run(&url, line);
        assert!(output.status.success(), "{line}: {output:?}");
    }
    for line in [
        "job cancel --all --yes",
        "job delete --all --yes",
        "job insert a",
        "queue pause emails",
        "queue limit emails 3",
        "periodic run daily",
        "periodic remove daily",
        "migrate --schema other",
    ] {
        let output = run(&url, line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains("permission denied") && stderr.contains("\nhint: "), "{line}: {stderr}");
    }
}
