//! `uniqueue migrate`.

use std::io::Write;
use std::process::{Command, Stdio};

use test_support::prelude::*;

use crate::support::{database, execute, has_psql, run_json, texts, uniqueue};

fn migrate(url: &str, arguments: &[&str]) -> Command {
    let mut command = uniqueue();
    command.args(["migrate", "--json", "--schema", "jobs"]).args(arguments).env("DATABASE_URL", url);
    command
}

#[tokio::test]
async fn status_is_right_before_and_after_and_a_second_migration_does_nothing() {
    let url = database().await;
    let (code, before) = run_json(&mut migrate(&url, &["--status"]));
    assert_eq!((code, &before["version"], &before["current"]), (1, &json!(0), &json!(false)));
    assert_eq!(before["waiting"].as_array().unwrap().len() as u64, before["needed"].as_u64().unwrap());
    assert_eq!(texts(&url, "SELECT nspname::text FROM pg_namespace WHERE nspname = 'jobs'").await, [""; 0]);

    let (code, applied) = run_json(&mut migrate(&url, &[]));
    let needed = before["needed"].as_u64().unwrap();
    assert_eq!((code, &applied["version"], &applied["current"]), (0, &json!(needed), &json!(true)));
    assert_eq!(applied["waiting"], json!([]));
    let names = applied["applied"].as_array().unwrap();
    assert_eq!(names[0], json!("V1 job"));
    assert!(names.last().unwrap().as_str().unwrap().starts_with(&format!("V{needed} ")), "{names:?}");

    let (code, again) = run_json(&mut migrate(&url, &[]));
    assert_eq!((code, &again["applied"]), (0, &json!([])));
    let (code, after) = run_json(&mut migrate(&url, &["--status"]));
    assert_eq!((code, &after["migrations"], &after["needed"]), (0, &applied["migrations"], &json!(needed)));
}

#[tokio::test]
async fn status_lists_applied_and_waiting_migrations() {
    let url = database().await;
    let status = |code: i32| {
        let mut command = uniqueue();
        command.args(["migrate", "--status", "--schema", "jobs", "--database-url", &url]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let before = status(1);
    assert!(before[0] == "V1 job, waiting" && before[1].starts_with("V2 queue_and_runner, waiting"), "{before:?}");

    assert_eq!(run_json(&mut migrate(&url, &[])).0, 0);
    assert!(!status(0).iter().any(|line| line.ends_with(", waiting")));
    execute(&url, "DELETE FROM jobs.schema_history WHERE version > 5").await;
    let (code, behind) = run_json(&mut migrate(&url, &["--status"]));
    assert_eq!((code, behind["migrations"].as_array().unwrap().len()), (1, 5));
    let waiting: Vec<_> = behind["waiting"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(waiting[..2], ["V6 canonical_json", "V7 unique_policy"]);
    assert_eq!(waiting.len() as u64, behind["needed"].as_u64().unwrap() - 5);
    let lines = status(1);
    assert!(lines[4].starts_with("V5 fetch, applied 20") && lines[5] == "V6 canonical_json, waiting", "{lines:?}");
}

#[tokio::test]
async fn newer_schema_is_left_alone() {
    let url = database().await;
    let needed = run_json(&mut migrate(&url, &[])).1["needed"].clone();
    let later = |oldest: &str| {
        format!(
            "INSERT INTO jobs.schema_history VALUES (999, 'later', '2030-01-01T00:00:00Z', '1', {oldest})
                 ON CONFLICT (version) DO UPDATE SET oldest = excluded.oldest"
        )
    };
    execute(&url, &later(&needed.to_string())).await;
    for arguments in [&["--status"][..], &[]] {
        let output = migrate(&url, arguments).output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (output.status.code(), &status["version"], &status["current"]),
            (Some(0), &json!(999), &json!(true))
        );
        assert_eq!((&status["needed"], &status["applied"], &status["waiting"]), (&needed, &json!([]), &json!([])));
    }
    execute(&url, &later("998")).await;
    let (code, status) = run_json(&mut migrate(&url, &["--status"]));
    assert_eq!((code, &status["version"], &status["current"]), (1, &json!(999), &json!(false)));
    let refused = migrate(&url, &[]).output().unwrap();
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with("error: schema jobs is at version 999, which needs"), "{stderr}");
    assert!(stderr.contains("version 998: this one knows") && stderr.contains("\nhint: upgrade"), "{stderr}");
}

#[tokio::test]
async fn printed_sql_can_be_run_by_hand() {
    if !has_psql() {
        return;
    }
    let url = database().await;
    let print =
        || uniqueue().args(["migrate", "--print", "--schema", "my-jobs", "--database-url", &url]).output().unwrap();
    let printed = print();
    assert_eq!((printed.status.code(), printed.stderr.len()), (Some(0), 0));
    assert_eq!(texts(&url, "SELECT nspname::text FROM pg_namespace WHERE nspname = 'my-jobs'").await, [""; 0]);
    let mut psql = Command::new("psql")
        .args([&url, "-Xq", "-v", "ON_ERROR_STOP=1", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    psql.stdin.take().unwrap().write_all(&printed.stdout).unwrap();
    let ran = psql.wait_with_output().unwrap();
    assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");

    let status = |arguments: &[&str]| {
        let mut command = uniqueue();
        command.args(["migrate", "--json", "--schema", "my-jobs", "--database-url", &url]).args(arguments);
        run_json(&mut command)
    };
    let (code, by_hand) = status(&["--status"]);
    assert_eq!((code, &by_hand["current"]), (0, &json!(true)));
    assert_eq!(status(&[]).1["applied"], json!([]));
    assert_eq!(status(&["--print"]), (0, json!({ "schema": "my-jobs", "sql": "" })));
    assert!(String::from_utf8(print().stdout).unwrap().starts_with("-- schema my-jobs has the version"));

    // The same as what the command makes itself, in a schema of the same name elsewhere.
    let other = database().await;
    assert!(
        uniqueue()
            .args(["migrate", "--schema", "my-jobs", "--database-url", &other])
            .output()
            .unwrap()
            .status
            .success()
    );
    let objects = "
        SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'my-jobs'::regnamespace
        UNION ALL
        SELECT format('%s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum))
        FROM pg_class AS c LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid WHERE c.relnamespace = 'my-jobs'::regnamespace
        UNION ALL
        SELECT indexdef FROM pg_indexes WHERE schemaname = 'my-jobs'
        ORDER BY 1";
    let made = texts(&url, objects).await;
    assert!(made.len() > 100, "{}", made.len());
    assert_eq!(made, texts(&other, objects).await);
}

#[tokio::test]
async fn a_lock_that_another_transaction_holds_times_out() {
    let url = database().await;
    let mut connection = <sqlx::PgConnection as sqlx::Connection>::connect(&url).await.unwrap();
    let hold = "BEGIN; CREATE SCHEMA jobs";
    sqlx::raw_sql(hold).execute(&mut connection).await.unwrap();
    let refused = migrate(&url, &["--lock-timeout", "50ms"]).output().unwrap();
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with("error: cannot migrate schema jobs: ") && stderr.contains("lock timeout"), "{stderr}");
    assert!(stderr.contains("\nhint: another transaction holds a lock"), "{stderr}");
    for (arguments, said) in [
        (
            &["--lock-timeout", "soon"][..],
            "error: invalid value 'soon' for '--lock-timeout <DURATION>': expected a length",
        ),
        (&["--status", "--print"], "error: the argument '--status' cannot be used with '--print'"),
    ] {
        let output = migrate(&url, arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.starts_with(said), "{stderr}");
    }
}
