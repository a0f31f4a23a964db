//! `uniqueue migrate`.

use std::process::Command;

use serde_json::json;

use crate::support::{database, execute, run_json, texts, uniqueue};

fn migrate(url: &str, arguments: &[&str]) -> Command {
    let mut command = uniqueue();
    command.args(["migrate", "--json", "--schema", "jobs"]).args(arguments).env("DATABASE_URL", url);
    command
}

#[tokio::test]
async fn status_tells_before_and_after_and_migrating_twice_is_fine() {
    let url = database().await;
    let (code, before) = run_json(&mut migrate(&url, &["--status"]));
    assert_eq!((code, &before["version"], &before["current"]), (1, &json!(0), &json!(false)));
    assert_eq!(texts(&url, "SELECT nspname::text FROM pg_namespace WHERE nspname = 'jobs'").await, [""; 0]);

    let (code, applied) = run_json(&mut migrate(&url, &[]));
    let needed = before["needed"].as_u64().unwrap();
    assert_eq!((code, &applied["version"], &applied["current"]), (0, &json!(needed), &json!(true)));
    let names = applied["applied"].as_array().unwrap();
    assert_eq!(names[0], json!("V1 job_queue"));
    assert!(names.last().unwrap().as_str().unwrap().starts_with(&format!("V{needed} ")), "{names:?}");

    let (code, again) = run_json(&mut migrate(&url, &[]));
    assert_eq!((code, &again["applied"]), (0, &json!([])));
    let (code, after) = run_json(&mut migrate(&url, &["--status"]));
    assert_eq!((code, &after["migrations"], &after["needed"]), (0, &applied["migrations"], &json!(needed)));
}

#[tokio::test]
async fn newer_schema_is_left_alone() {
    let url = database().await;
    assert_eq!(run_json(&mut migrate(&url, &[])).0, 0);
    execute(
        &url,
        "INSERT INTO jobs.schema_history SELECT 999, 'later', applied_on, checksum FROM jobs.schema_history LIMIT 1",
    )
    .await;
    let (code, status) = run_json(&mut migrate(&url, &["--status"]));
    assert_eq!((code, &status["version"], &status["current"]), (1, &json!(999), &json!(false)));
    let refused = migrate(&url, &[]).output().unwrap();
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with("error: schema jobs is at version 999, newer"), "{stderr}");
    assert!(stderr.contains("\nhint: upgrade"), "{stderr}");
}
