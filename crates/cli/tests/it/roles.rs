//! The roles of deploy/roles.sql, at the command: it needs no more than is listed there.

use crate::support::Migrated;

const GRANTS: &str = include_str!("../../../../deploy/roles.sql");

/// A migrated database with jobs, and the command as a role with the grants that the file lists for it.
async fn role(name: &str) -> (Migrated, Migrated) {
    let admin = Migrated::new().await;
    let (role, own) = admin.role(name).await;
    let to = format!(" TO {name};");
    let grants: Vec<_> = GRANTS.lines().filter(|line| line.starts_with("GRANT ") && line.ends_with(&to)).collect();
    assert!(grants.len() > 3, "the file lists grants for {name}");
    for grant in grants {
        admin.execute(&grant.replace(&to, &format!(" TO {role}"))).await;
    }
    let jobs = "INSERT INTO uniqueue.job (id, kind, state, finalized_at)
        SELECT uniqueue.new_job_id(), 'a', s::uniqueue.job_state, CASE WHEN s = 'discarded' THEN now() END
        FROM unnest(ARRAY['available', 'discarded']) AS s;
        INSERT INTO uniqueue.periodic (name, kind, schedule) VALUES ('daily', 'a', 'P1D')";
    admin.execute(jobs).await;
    (admin, own)
}

const LOOKS: [&str; 6] =
    ["migrate --status", "stats", "queue list", "job list", "job list --state discarded --json", "periodic list"];

#[tokio::test]
async fn an_operator_can_use_the_command() {
    let (_, own) = role("operator").await;
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
        own.text(line, 0);
    }
}

#[tokio::test]
async fn an_inserter_can_insert_with_the_command() {
    let (admin, own) = role("inserter").await;
    let policy = |policy: &str| format!(r#"job insert b --policy {{"key":"k",{policy}}}"#);
    for line in [
        "job insert b --queue emails --at +1h --id 019abc12-3456-7def-8a12-3456789abcde".to_owned(),
        "job insert b --key k --in 1h".to_owned(),
        policy(r#""scope":"queued""#),
        policy(r#""scope":"queued","on_conflict":"run_again""#),
        policy(r#""scope":"queued","update":"latest""#),
        policy(r#""scope":"queued","on_conflict":"replace""#),
    ] {
        own.text(line, 0);
    }
    // A wait also reads whether the queue keeps results. No runner works the job.
    admin.execute("GRANT SELECT ON uniqueue.queue TO PUBLIC").await;
    assert!(own.text("job insert b --wait 1ms", 1).contains("is not final yet"));
}

#[tokio::test]
async fn a_reader_can_look_with_the_command_and_change_nothing() {
    let (_, own) = role("reader").await;
    for line in LOOKS {
        own.text(line, 0);
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
        let stderr = own.refused(line);
        assert!(stderr.contains("permission denied") && stderr.contains("\nhint: "), "{line}: {stderr}");
    }
}
