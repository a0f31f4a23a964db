//! `uniqueue unique`: explain, holders, show, release, audit, backfill.

mod audit_and_backfill;
mod explaining;
mod holders;

use std::process::Command;

use serde_json::Value;

use crate::support::{migrated, run_json, texts, uniqueue};

fn unique(url: &str, arguments: &[&str]) -> Command {
    let mut command = uniqueue();
    command.args(["unique"]).args(arguments).args(["--schema", "jobs"]).env("DATABASE_URL", url);
    command
}

/// The exit code and the text.
fn told(url: &str, arguments: &[&str]) -> (i32, String) {
    let output = unique(url, arguments).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn refused(url: &str, arguments: &[&str]) -> String {
    let output = unique(url, arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains("\nhint: "), "{arguments:?}: {stderr}");
    stderr
}

fn json_of(url: &str, arguments: &[&str]) -> (i32, Value) {
    run_json(unique(url, arguments).arg("--json"))
}

/// A migrated database.
async fn queue() -> String {
    migrated("jobs").await
}

async fn insert(url: &str, kind: &str, args: &str, policy: &str) -> String {
    let insert = format!("SELECT id::text FROM jobs.insert_job('{kind}', '{args}', unique_policy => '{policy}')");
    texts(url, &insert).await.remove(0)
}
